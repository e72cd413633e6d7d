// SPDX-License-Identifier: GPL-2.0
// A driver whose work item computes for 30 ms, ten times, on the CPU that loads the module.
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/workqueue.h>

static void poll_device_workfn(struct work_struct *work)
{
	mdelay(30);
}

static DECLARE_WORK(poll_device, poll_device_workfn);

static int __init hogging_work_init(void)
{
	int times;

	for (times = 0; times < 10; times++) {
		schedule_work(&poll_device);
		flush_work(&poll_device);
	}
	return 0;
}

static void __exit hogging_work_exit(void)
{
}

module_init(hogging_work_init);
module_exit(hogging_work_exit);
MODULE_DESCRIPTION("A work item that hogs its CPU");
MODULE_LICENSE("GPL");
