-- the same of kernel threads
select * from starved where is_kernel_thread
