"""Puts the program that UNSTARVE_PROGRAM names into the wheel, as `bin/unstarve` of the environment that it is installed into.

The wheel is then for the machines that UNSTARVE_PLATFORM names (`manylinux2014_x86_64.musllinux_1_1_x86_64`): the program is one static file, so
that it needs neither glibc nor musl of the host. The licences of what is inside it (LICENCES*.txt beside the program, as `make dist` writes them) go with it. Without UNSTARVE_PROGRAM the wheel has no program, and uses that of the host.
"""
import os
import pathlib
from typing import Any, Dict

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BundledProgram(BuildHookInterface):  # type: ignore[misc]
    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        program = os.environ.get("UNSTARVE_PROGRAM")
        if program:
            path = pathlib.Path(program).resolve()
            build_data["shared_scripts"] = {str(path): "unstarve"}
            build_data["force_include"] = {str(notice): f"unstarve/{notice.name}" for notice in sorted(path.parent.glob("LICENCES*.txt"))}
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{os.environ['UNSTARVE_PLATFORM']}"
