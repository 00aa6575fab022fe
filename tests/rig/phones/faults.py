"""What an emulated phone can do wrong, and how its parts are told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """The positions of a phone's fault switch."""

    OK = "ok"
    SLOW = "slow"
    """Every cycle takes longer, always by the same."""
    NOISY = "noisy"
    """Every interval of the clock is longer by chance; one in eight much longer."""
    THROTTLING = "throttling"
    """After so much work without a rest the phone is hot, shows it, and is slower."""
    HANG = "hang"
    """A call of the DSP never comes back."""
    CRASH = "crash"
    """The process on the DSP dies on its way."""
    WRONG_RESULT = "wrong_result"
    """One bit of every larger piece of output is wrong."""
    TRUNCATED = "truncated"
    """What the DSP writes is cut short, and every status says that all is well."""
    TRUNCATED_SHELL = "truncated_shell"
    """What a shell says is cut short; its exit status is 0 whatever happened."""
    FULL_DISK = "full_disk"
    ADBD_KILLED = "adbd_killed"
    """adbd and all it had started are gone, until it is started again."""
    DISCONNECT = "disconnect"
    """The cable is out: nobody gets through, but what was started goes on."""
    FROZEN = "frozen"
    """Every process is stopped; connections stay open and nothing answers."""
    SLOW_PUSH = "slow_push"
    """What is pushed waits before the disk, and comes to it when the switch is set anew."""


@dataclass(frozen=True)
class Setting:
    """A switch with what there is to adjust. The defaults are bad enough to be noticed.

    Rates are parts per million: ``cycles_ppm=1_500_000`` is half as slow again. ``seed`` decides
    everything random: the same seed, the same phone, the same order of runs, the same faults.
    ``hot_after`` counts packets, ``at_write`` the DSP's writes to files from 1 (0: before main),
    ``restart_after_s`` brings adbd back by itself, ``orphans`` leaves what it had started.
    """

    fault: Fault = Fault.OK
    seed: int = 0
    cycles_ppm: int = 1_500_000
    noise_ppm: int = 60_000
    spike_ppm: int = 500_000
    throttled_ppm: int = 400_000
    hot_after: int = 2_000_000
    rest_ms: int = 1_000
    at_write: int = 1
    keep_bytes_ppm: int = 500_000
    flip_from_bytes: int = 256
    shell_bytes: int = 40
    leave_bytes: int = 4096
    restart_after_s: float | None = None
    orphans: bool = False

    def loader_faults(self) -> dict[str, int]:
        """What the loader must know (loader/faults.c)."""
        rows: dict[Fault, dict[str, int]] = {
            Fault.SLOW: {"cycles_ppm": self.cycles_ppm},
            Fault.NOISY: {"noise_ppm": self.noise_ppm, "spike_ppm": self.spike_ppm},
            Fault.THROTTLING: {
                "throttled_ppm": self.throttled_ppm,
                "hot_after": self.hot_after,
                "rest_ms": self.rest_ms,
            },
            Fault.HANG: {"hang_at_write": self.at_write, "hang_at_start": int(not self.at_write)},
            Fault.CRASH: {"crash_at_write": max(self.at_write, 1)},
            Fault.WRONG_RESULT: {"flip_from_bytes": self.flip_from_bytes},
            Fault.TRUNCATED: {"keep_bytes_ppm": self.keep_bytes_ppm},
        }
        return {"seed": self.seed, **rows.get(self.fault, {})}
