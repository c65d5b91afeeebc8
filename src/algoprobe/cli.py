"""The command line: parses, calls one function, prints. Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from algoprobe.core.config import digest
from algoprobe.core.errors import AlgoprobeError, Interrupted, UsageError, unknown
from algoprobe.core.run import RunFolder, find_run
from algoprobe.options import (
    BenchOptions,
    DoctorOptions,
    EvalOptions,
    ExplainOptions,
    ExportOptions,
    HaltOptions,
    LensOptions,
    ListOptions,
    ReportOptions,
    TrainOptions,
    parse_loops,
    parse_numbers,
)
from algoprobe.probes.circuit_settings import Settings
from algoprobe.probes.halting_settings import Halting
from algoprobe.training.config import Experiment

if TYPE_CHECKING:
    from algoprobe.studies.registry import Preset, Study


def parse(options: type, name: str, arguments: list[str]) -> Any:
    """`arguments` as an instance of `options`; on a mistake tyro prints the field, the value and exits with 2."""
    return tyro.cli(options, prog=f"algoprobe {name}", args=arguments, description=options.__doc__)


def names_of(entries: Mapping[str, Preset | Study]) -> str:
    """A line for each preset or study: name and summary."""
    return "\n".join(f"  {entry.name:<24} {entry.summary}" for entry in entries.values())


def train_command(arguments: list[str]) -> int:
    """Train a preset, or go on with a run folder; any field can be overridden, and the same command goes on."""
    from algoprobe.studies.registry import PRESETS, command_for, load

    load()
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"usage: algoprobe train PRESET|RUN [--help] [--task.n 65 …]\n\npresets:\n{names_of(PRESETS)}")
        return 0 if arguments else 2
    preset, start = starting_point(arguments[0])
    if (Path(arguments[0]) / "config.json").is_file():
        arguments = [*arguments, "--run", arguments[0]]

    @dataclass(frozen=True)
    class Options:
        experiment: Annotated[Experiment, tyro.conf.arg(name="")]
        options: Annotated[TrainOptions, tyro.conf.arg(name="")]

    made = tyro.cli(
        Options,
        prog=f"algoprobe train {preset.name}",
        args=arguments[1:],
        default=Options(start, TrainOptions()),
        description=preset.summary,
        config=(tyro.conf.AvoidSubcommands,),
    )
    experiment, options = made.experiment, made.options
    experiment.check()
    folder = RunFolder(options.run or options.out / preset.name / digest(experiment))

    from algoprobe.training.loop import train
    from algoprobe.training.progress import progress_for

    progress = progress_for(experiment.train.steps * experiment.train.batch)
    try:
        train(
            experiment,
            folder,
            progress,
            preset=preset.name,
            scale=preset.scale,
            command=command_for(preset, experiment),
            checkpoint_seconds=options.checkpoint_seconds,
        )
    finally:
        progress.close()
    from algoprobe.training.evaluation import is_scored, score

    if options.evaluate and not is_scored(folder):
        progress.say("scoring the reserved test rows")
        worst = score(folder)
        progress.say(f"worst test cell: {worst}; `algoprobe report {folder.path}` draws the page")
    print(folder.path)
    return 0


def starting_point(name: str) -> tuple[Preset, Experiment]:
    """What `train` begins with: a preset and its experiment, or those of a run folder, to go on with it by its path."""
    from algoprobe.studies.registry import PRESETS, Preset, find_preset

    folder = RunFolder(Path(name))
    if not folder.has("config.json"):
        if folder.path.exists() or "/" in name:
            raise UsageError(f"run: {name!r} has no config.json; a preset or a run folder is wanted")
        preset = find_preset(name)
        return preset, preset.make()
    from algoprobe.training.load import read_experiment

    experiment, config = read_experiment(folder), folder.read("config.json")
    made_by = str(config.get("preset", "custom"))
    custom = Preset(made_by, str(config.get("scale", "laptop")), f"The run in {name}.", lambda: experiment)
    return PRESETS.get(made_by, custom), experiment


def evaluate_run(options: EvalOptions) -> dict[str, Any]:
    """The `eval --json` object of one run."""
    if options.save and options.run.startswith("zoo:"):
        raise UsageError(f"save: {options.run} is a committed model and stays as it is; leave --save out")
    from algoprobe.training.evaluation import evaluate_folder

    on = tuple(part for part in options.on.split(",") if part)
    return evaluate_folder(
        options.run,
        on=on,
        at=parse_numbers("at", options.at, 0) if options.at else (),
        n=options.n,
        rows=options.rows,
        loops=lambda default: parse_loops(options.loops, default),
        device=options.device,
        save=options.save,
    )


def eval_command(arguments: list[str]) -> int:
    """Accuracy of a run in every test cell."""
    options = parse(EvalOptions, "eval", arguments)
    found = evaluate_run(options)
    status = find_run(options.run).record.get("status")
    if status != "finished":
        complain(f"note: {options.run} is not finished (status: {status})", 0)
    if options.json:
        print(json.dumps(found))
    else:
        from rich.console import Console

        from algoprobe.report.tables import cells_table

        Console().print(cells_table(found["cells"]).rich())
    return 0


def lens_command(arguments: list[str]) -> int:
    """Open a trained model: logit, loops, attribution, patch, path, pattern, ablate, probe."""
    options = parse(LensOptions, "lens", arguments)
    from algoprobe.studies.lenses import look

    found, table = look(options)
    if options.json:
        print(json.dumps(found))
    else:
        from rich.console import Console

        console = Console()
        console.print(table.rich())
        console.print(found["note"], markup=False, highlight=False)
    return 0


def report_command(arguments: list[str]) -> int:
    """Write a static page for one or several runs."""
    options = parse(ReportOptions, "report", arguments)
    if not options.runs:
        raise UsageError("runs: name at least one run folder or zoo:NAME")
    from algoprobe.report.page import write

    folders, out = [find_run(run).path for run in options.runs], options.out
    if out is None and len(folders) == 1 and options.runs[0].startswith("zoo:"):
        out = Path("runs") / f"report-{folders[0].name}"
    print(write(folders, out))
    return 0


def list_command(arguments: list[str]) -> int:
    """List presets, studies, committed models and runs."""
    options = parse(ListOptions, "list", arguments)
    from algoprobe.core.run import resource
    from algoprobe.studies.registry import PRESETS, STUDIES, load

    load()
    found = {
        "presets": [{"name": p.name, "scale": p.scale, "summary": p.summary} for p in PRESETS.values()],
        "studies": [{"name": s.name, "summary": s.summary} for s in STUDIES.values()],
        "zoo": [f"zoo:{path.parent.name}" for path in sorted(resource("zoo").glob("*/config.json"))],
        "runs": [about_run(RunFolder(path.parent)) for path in sorted(Path("runs").glob("*/*/config.json"))],
        "benchmarks": benchmark_names(),
    }
    if options.json:
        print(json.dumps(found))
        return 0
    for title, rows in found.items():
        print(f"{title}:")
        for row in rows or ["(none)"]:
            print(f"  {row}" if isinstance(row, str) else f"  {row['name']:<24} {row['summary']}")
    return 0


def about_run(folder: RunFolder) -> dict[str, str]:
    """A run's place, and in words how far it got and what makes it again."""
    try:
        record = folder.record
    except AlgoprobeError:
        return {"name": str(folder.path), "summary": "record.json is damaged"}
    # A run that was killed could not say so; who holds the lock is still running.
    words = [str(record.get("status", "not started")), f"{record.get('examples', 0):,} examples"]
    return {"name": str(folder.path), "summary": ", ".join([*words, record.get("command") or "made by a script"])}


def benchmark_names() -> list[str]:
    """The scripts in `benchmarks/`."""
    from algoprobe.core.run import resource

    return sorted(path.stem for path in resource("benchmarks").glob("[a-z]*.py"))


def doctor_command(arguments: list[str]) -> int:
    """Check devices, dtypes and arithmetic."""
    options = parse(DoctorOptions, "doctor", arguments)
    from algoprobe.training.doctor import examine

    found = examine()
    if options.json:
        print(json.dumps(found))
    else:
        for check in found["checks"]:
            print(f"{'ok ' if check['ok'] else 'BAD'}  {check['name']:<28} {check['detail']}")
    return 0 if all(check["ok"] for check in found["checks"]) else 1


def bench_command(arguments: list[str]) -> int:
    """Measure the speed promises."""
    options = parse(BenchOptions, "bench", arguments)
    known = benchmark_names()
    for name in options.names:
        if name not in known:
            raise unknown("bench", name, known)
    import runpy

    from algoprobe.core.run import resource

    promises = []
    for name in options.names or known:
        module = runpy.run_path(str(resource("benchmarks") / f"{name}.py"))
        promises.extend(module["run"]())
    if options.json:
        print(json.dumps({"promises": promises}))
    else:
        from rich.console import Console

        from algoprobe.report.tables import promises_table

        Console().print(promises_table(promises).rich())
    return 1 if any(promise["holds"] is False for promise in promises) else 0


def explain_command(arguments: list[str]) -> int:
    """Rebuild the computation behind answers: circuits, and how many of them path merging explains."""

    @dataclass(frozen=True)
    class Options:
        options: Annotated[ExplainOptions, tyro.conf.arg(name="")]
        settings: Annotated[Settings, tyro.conf.arg(name="")]

    made = tyro.cli(Options, prog="algoprobe explain", args=arguments, description=ExplainOptions.__doc__)
    from algoprobe.studies.explain import explain_all
    from algoprobe.studies.explain_plan import plan_for, subjects_of

    plan = plan_for(made.options, made.settings, subjects_of(made.options))
    found, tables, page = explain_all(plan, made.options.workers)
    if made.options.json:
        print(json.dumps(found))
        return 0
    from rich.console import Console

    if made.options.row is not None:  # of a single input no share says anything
        for drawn in found["drawn"]:
            print(drawn["text"])
    else:
        for table in tables:
            Console().print(table.rich(), "")
    print(page)
    return 0


def halt_command(arguments: list[str]) -> int:
    """Stop looping row by row: accuracy and loops taken under a halting rule."""

    @dataclass(frozen=True)
    class Options:
        options: Annotated[HaltOptions, tyro.conf.arg(name="")]
        halting: Annotated[Halting, tyro.conf.arg(name="")]

    made = tyro.cli(Options, prog="algoprobe halt", args=arguments, description=HaltOptions.__doc__)
    from algoprobe.studies.halting import halt

    found, tables = halt(made.options, made.halting)
    if made.options.json:
        print(json.dumps(found))
        return 0
    from rich.console import Console

    for table in tables:
        Console().print(table.rich())
    return 0


def export_command(arguments: list[str]) -> int:
    """Keep a finished run small: config, record, evaluation, and weights in half precision where no answer changes."""
    options = parse(ExportOptions, "export", arguments)
    from algoprobe.training.export import export

    found = export(options.run, options.target)
    if options.json:
        print(json.dumps(found))
    else:
        print(
            f"{found['folder']}: {found['bytes']:,} bytes, {found['precision']}, same answers on {found['rows']:,} rows"
        )
    return 0


def study_command(arguments: list[str]) -> int:
    """Re-make a paper's figure."""
    from algoprobe.studies.registry import STUDIES, StudyOptions, find_study, load

    load()
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"usage: algoprobe study NAME [--help]\n\nstudies:\n{names_of(STUDIES)}")
        return 0 if arguments else 2
    study = find_study(arguments[0])
    options = parse(StudyOptions, f"study {study.name}", arguments[1:])
    found = study.run(options)
    if options.json:
        print(json.dumps(found))
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": train_command,
    "eval": eval_command,
    "lens": lens_command,
    "explain": explain_command,
    "halt": halt_command,
    "report": report_command,
    "export": export_command,
    "study": study_command,
    "list": list_command,
    "doctor": doctor_command,
    "bench": bench_command,
}


def usage() -> str:
    """What `algoprobe --help` prints."""
    lines = "\n".join(f"  {name:<8} {(command.__doc__ or '').strip()}" for name, command in COMMANDS.items())
    return (
        "usage: algoprobe COMMAND …\n\n"
        "Train small transformers on algorithmic tasks whose shortcuts are under control,\n"
        "and see whether they learned the algorithm.\n\n"
        f"commands:\n{lines}\n\nalgoprobe COMMAND --help tells more."
    )


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        import importlib.metadata

        print(importlib.metadata.version("algoprobe"))
        return 0
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character is no reason to fail
    with stopping_signals():
        try:
            if arguments[0] not in COMMANDS:
                raise unknown("command", arguments[0], COMMANDS)
            code = COMMANDS[arguments[0]](arguments[1:])
            if sys.stdout is not None:
                sys.stdout.flush()
            return code
        except Interrupted as stopped:
            return complain(f"{stopped}; the same command goes on from there", 130)
        except AlgoprobeError as error:
            return complain(str(error), error.exit_code)
        except BrokenPipeError:
            # The reader of our output has gone; give the interpreter somewhere to flush to.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except KeyboardInterrupt:
            return complain("interrupted", 130)
        except MemoryError:
            return complain("out of memory; smaller sizes, fewer loops or a smaller batch need less", 1)
        except OSError as error:
            return complain(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", 1)
        except RuntimeError as error:
            if "allocate" not in str(error):
                raise
            return complain("out of memory; smaller sizes, fewer loops or a smaller batch need less", 1)


def complain(text: str, code: int) -> int:
    """Say on standard error what went wrong; the exit code."""
    with contextlib.suppress(OSError, ValueError):
        print(f"algoprobe: {text}", file=sys.stderr, flush=True)
    return code


@contextlib.contextmanager
def stopping_signals() -> Iterator[None]:
    """Outside training, which saves first, SIGTERM and SIGHUP stop like Ctrl-C. Ignored ones stay so (nohup)."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
