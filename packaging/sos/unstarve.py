# A plugin for sos (sosreport): what unstarve knows of a host, for a bundle that goes to somebody else. Copied to the directory of sos' plugins,
# as docs/evidence.md says. It changes nothing, and records only if it is asked to: `-k unstarve.record=10`.
import os

from sos.report.plugins import DebianPlugin, IndependentPlugin, Plugin, RedHatPlugin, SuSEPlugin, UbuntuPlugin

try:
    from sos.report.plugins import PluginOpt
except ImportError:  # before sos 4.2
    PluginOpt = None

# The longest recording, in seconds.
MAX_RECORD_SECONDS = 300
RECORD = "records the scheduler for so many seconds, 0 is not at all"


class Unstarve(Plugin, IndependentPlugin, RedHatPlugin, DebianPlugin, UbuntuPlugin, SuSEPlugin):

    short_desc = "unstarve: threads that the Linux scheduler starves"
    plugin_name = "unstarve"
    profiles = ("system", "performance", "kernel")
    commands = ("unstarve",)
    option_list = [
        PluginOpt("record", default=0, val_type=int, desc=RECORD) if PluginOpt else ("record", RECORD, "slow", 0)
    ]

    def setup(self):
        self.add_copy_spec(["/etc/unstarve", "/var/lib/unstarve/watch/episodes.jsonl"])
        # Recordings of the watch, as many of the latest as the limit of sos allows.
        self.add_copy_spec("/var/lib/unstarve/watch/*/trace.dat*", tailit=False)
        self.add_cmd_output([
            "unstarve doctor",
            "unstarve snapshot -o -",
            "unstarve check --json",
            "unstarve knobs list --json",
            "unstarve fix --status --json",
            "unstarve watch status --json",
            "unstarve watch episodes --json",
        ], timeout=60)
        seconds = self.record_seconds()
        if seconds:
            place = os.path.join(self.get_cmd_output_path(), "unstarve.dat")
            self.add_cmd_output("unstarve record --for %ds -o %s" % (seconds, place), suggest_filename="unstarve_record", timeout=seconds + 60)

    def record_seconds(self):
        """Of the option: a number that is not one, or too large, is said and not used."""
        try:
            seconds = int(self.get_option("record") or 0)
        except (TypeError, ValueError):
            seconds = -1
        if not 0 <= seconds <= MAX_RECORD_SECONDS:
            self._log_warn("record: expected seconds from 0 to %d: nothing is recorded" % MAX_RECORD_SECONDS)
            return 0
        return seconds
