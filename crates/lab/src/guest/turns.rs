//! Shorter turns for the CPUs of a guest with several.
//!
//! QEMU runs one CPU at a time, each up to the next timer divided by the number of CPUs, and time goes on for all of them. With ticks
//! alone a turn lasts hundreds of microseconds: a thread that computes for 50 µs may need 500, and an interrupt from another CPU
//! comes as late (docs/decisions/0595). The clock chip's periodic timer, the fastest that no interrupt handler has to serve, makes
//! turns a tenth as long.

use super::GuestError;

/// 8192 Hz, the fastest rate. Source: MC146818 data sheet, register A.
#[cfg(target_arch = "x86_64")]
const FASTEST_RATE: u8 = 3;

/// Register B: the periodic interrupt is enabled.
#[cfg(target_arch = "x86_64")]
const PERIODIC: u8 = 0x40;

/// Starts the timer. Its interrupt stays masked: its driver, which would unmask it, gives the device up first.
#[cfg(target_arch = "x86_64")]
pub(super) fn shorten() -> Result<(), GuestError> {
    for driver in ["/sys/bus/pnp/drivers/rtc_cmos", "/sys/bus/platform/drivers/rtc_cmos"] {
        for device in std::fs::read_dir(driver).into_iter().flatten().filter_map(Result::ok) {
            let name = device.file_name().to_string_lossy().into_owned();
            if name != "module" && device.file_type().is_ok_and(|file| file.is_symlink()) {
                super::write(format!("{driver}/unbind"), &name)?;
            }
        }
    }
    // SAFETY: asks for the right to use two ports of this guest's own clock chip.
    if unsafe { libc::ioperm(INDEX.into(), 2, 1) } != 0 {
        return Err(GuestError(format!("cannot use the clock chip: {}", std::io::Error::last_os_error())));
    }
    set_register(0x0a, |a| a & 0xf0 | FASTEST_RATE);
    set_register(0x0b, |b| b | PERIODIC);
    Ok(())
}

/// The guest of another architecture has no such chip.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn shorten() -> Result<(), GuestError> {
    Ok(())
}

#[cfg(target_arch = "x86_64")]
const INDEX: u16 = 0x70;

#[cfg(target_arch = "x86_64")]
const DATA: u16 = 0x71;

#[cfg(target_arch = "x86_64")]
fn set_register(register: u8, change: impl Fn(u8) -> u8) {
    use std::arch::asm;
    let value: u8;
    // SAFETY: the calling thread may use these ports; they select and read a register of the clock chip.
    unsafe {
        asm!("out dx, al", in("dx") INDEX, in("al") register, options(nomem, nostack));
        asm!("in al, dx", in("dx") DATA, out("al") value, options(nomem, nostack));
    }
    // SAFETY: as above; writes the register that was read.
    unsafe {
        asm!("out dx, al", in("dx") INDEX, in("al") register, options(nomem, nostack));
        asm!("out dx, al", in("dx") DATA, in("al") change(value), options(nomem, nostack));
    }
}
