"""Runs the command with options, files and signals that are drawn at random.

    python3 tests/fuzz/commands.py STOWAGE options N [SEED]   # combinations of options
    python3 tests/fuzz/commands.py STOWAGE files N [SEED]     # files that are damaged
    python3 tests/fuzz/commands.py STOWAGE stops N [SEED]     # runs that a signal stops

A run with random options or a damaged file must end within 40 s by one of the documented
exit codes, print an error where it fails, and leave every input as it was. A run that is
stopped must end within 2 s, whatever becomes of its output, with a checkpoint that loads;
its machine has twice as much to do as it has processors. The last line counts runs,
"N passed, N failed"; each failure is printed with what repeats it.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import string
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests/goldens"
SECONDS = 40
CODES = {0, 1, 2, 3}
# Words that a user may give by mistake, or a script from an empty variable.
ODD = ["", "0", "1", "2", "3", "4", "8", "010", "-1", "-0", "1.5", "1e3", "1e-46", "1e39", "nan",
       "inf", "9223372036854775807", "18446744073709551616", "0x10", " 4", "4 ", "four", "auto",
       "none", "all", "*", "x=y", "=", "a,b", "50%", "101%", "1MB", "12MB", "64KiB", "1e6MB",
       "true", "--json", "-", ".", "/", "/dev/null", "nowhere/file", "é", "\x1b[31m", "a" * 300]
FILES = ["digits.csv", "text.txt", "net.onnx", "net.npz", "graph.ir", "step.plan", "jobs.ledger", "run.st",
         "weights.safetensors", "tokenizer.json", "pack.csv", "op.times", "llama.gguf", "llama",
         "adapter", "config.toml", "new.out", "new.svg", "new.c"]


def limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


class Commands:
    """The command in a folder of its own, whose files are inputs."""

    def __init__(self, stowage):
        self.stowage = stowage
        self.folder = pathlib.Path(tempfile.mkdtemp())

    def run(self, words, seconds=SECONDS):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder.parent / "cache"),
                       "HOME": str(self.folder)}
        try:
            return subprocess.run([self.stowage, *words], cwd=self.folder, timeout=seconds,
                                  stdin=subprocess.DEVNULL, capture_output=True,
                                  env=environment, preexec_fn=limits)
        except subprocess.TimeoutExpired:
            return None

    def must(self, *words):
        done = self.run(words, 300)
        if done is None or done.returncode != 0:
            sys.exit(f"{' '.join(words)}: {done and done.stderr.decode(errors='replace')}")

    def make_files(self):
        for source, name in [("onnx/images_dynamo.onnx", "net.onnx"),
                             ("onnx/images.npz", "net.npz"),
                             ("pretrained/llama.gguf", "llama.gguf")]:
            shutil.copy(GOLDENS / source, self.folder / name)
        shutil.copytree(GOLDENS / "pretrained/llama", self.folder / "llama")
        shutil.copytree(GOLDENS / "encoders/bert-base", self.folder / "bert")
        digits = (ROOT / "examples/data/digits.csv").read_text().splitlines(keepends=True)[:120]
        (self.folder / "digits.csv").write_text("".join(digits))
        draw = random.Random(0)
        (self.folder / "text.txt").write_text(" ".join(
            "".join(draw.choices(string.ascii_lowercase, k=draw.randrange(2, 8)))
            for _ in range(1500)))
        tokens = [*string.ascii_letters, "th", "\u0120", ".", "?", *map(str, range(5))]
        (self.folder / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
            "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)},
                      "merges": ["t h"]}}))
        (self.folder / "config.toml").write_text('optimizer = "adamw"\nno-decay = ["*.bias"]\n')
        (self.folder / "pack.csv").write_text("id,lower,upper,size\n" + "".join(
            f"b{i},{i % 7},{i % 7 + 1 + i % 5},{64 * (1 + i % 9)}\n" for i in range(40)))
        (self.folder / "chats.jsonl").write_text("".join(
            json.dumps({"prompt": f"What is {i % 5}?", "completion": f"It is {i % 5}."}) + "\n"
            for i in range(20)))
        (self.folder / "pairs.jsonl").write_text("".join(
            json.dumps({"prompt": f"Is {i % 5}?", "chosen": f"It is {i % 5}.", "rejected": "no"})
            + "\n" for i in range(20)))
        (self.folder / "films.csv").write_text("text,label\n" + "".join(
            f"the film is {'good' if i % 3 else 'bad'},{i % 3 > 0:d}\n" for i in range(20)))
        (self.folder / "queries.jsonl").write_text("".join(
            json.dumps({"query": f"the film {i % 5}", "pos": ["good"], "neg": ["bad", "a film"]})
            + "\n" for i in range(20)))
        self.must("train", "--model", "mlp", "--data", "digits.csv", "--batch", "8", "--steps", "2",
                  "--stop-at", "1", "--device", "cpu", "--save", "run.st", "--save-weights", "weights.safetensors")
        self.must("finetune", "--weights", "llama.gguf", "--data", "text.txt", "--tokenizer",
                  "tokenizer.json", "--seq", "16", "--batch", "2", "--steps", "1", "--sample", "0",
                  "--device", "cpu", "--save-adapter", "adapter")
        self.must("plan", "--model", "mlp", "--batch", "8", "-o", "step.plan")
        self.must("lock", "write", "memory.lock", "train=step.plan")
        self.must("run", "--ledger", "jobs.ledger", "--device", "0", "--capacity", "1MiB", "--bytes",
                  "1KiB", "--", "true")
        self.must("time", "--model", "mlp", "--data", "digits.csv", "--batch", "8", "--steps", "1",
                  "--device", "cpu", "-o", "op.times")
        (self.folder / "graph.ir").write_text(
            'stowage-ir 1\ngraph "small" {\n  x: f32(64) = input\n  h: f32(64) = exp(x)\n'
            '  y: f32(64) = relu(h)\n  output "y" = y\n}\n')
        self.must("train", "--onnx", "net.onnx", "--data", "net.npz", "--loss", "cross_entropy",
                  "--steps", "1", "--device", "cpu", "--save", "net.st")
        for words in [*subjects().values(), *reading()]:
            self.must(*words)

    def digests(self):
        return {path: hashlib.sha256(path.read_bytes()).digest()
                for path in sorted(self.folder.rglob("*")) if path.is_file()}


def subjects():
    """Commands that succeed by themselves."""
    train = ["--steps", "2", "--device", "cpu"]
    return {
        "plan mlp": ["plan", "--model", "mlp", "--batch", "8"],
        "plan text": ["plan", "--model", "gpt-nano", "--batch", "2", "--seq", "8"],
        "plan onnx": ["plan", "--onnx", "net.onnx", "--loss", "cross_entropy"],
        "plan graph": ["plan", "--graph", "graph.ir"],
        "compile mlp": ["compile", "--model", "mlp", "--batch", "8", "-o", "new.c"],
        "compile onnx": ["compile", "--onnx", "net.onnx", "--loss", "cross_entropy", "-o",
                         "new.c"],
        "compile graph": ["compile", "--graph", "graph.ir", "-o", "new.c"],
        "train mlp": ["train", "--model", "mlp", "--data", "digits.csv", "--batch", "8", *train],
        "train text": ["train", "--model", "gpt-nano", "--data", "text.txt", "--batch", "2",
                       "--seq", "8", "--sample", "0", *train],
        "train onnx": ["train", "--onnx", "net.onnx", "--data", "net.npz", "--loss",
                       "cross_entropy", *train],
        "finetune": ["finetune", "--weights", "llama.gguf", "--tokenizer", "tokenizer.json",
                     "--data", "text.txt", "--seq", "16", "--batch", "2", "--sample", "0", *train],
        "finetune folder": ["finetune", "--weights", "llama", "--tokenizer", "tokenizer.json",
                            "--data", "chats.jsonl", "--seq", "16", "--batch", "2", "--sample",
                            "0", *train],
        "finetune pairs": ["finetune", "--weights", "llama", "--tokenizer", "tokenizer.json",
                           "--data", "pairs.jsonl", "--objective", "dpo", "--seq", "24",
                           "--batch", "2", "--sample", "0", *train],
        "finetune labels": ["finetune", "--weights", "bert", "--data", "films.csv", "--objective",
                            "classify", "--seq", "9", "--batch", "2", *train],
        "finetune queries": ["finetune", "--weights", "bert", "--data", "queries.jsonl",
                             "--objective", "embed", "--seq", "9", "--batch", "2", *train],
        "time": ["time", "--model", "mlp", "--data", "digits.csv", "--batch", "8", "--steps", "1",
                 "--device", "cpu", "-o", "new.times"],
        "pack": ["pack", "pack.csv"],
        "check": ["check", "step.plan"],
        "lock": ["lock", "check", "memory.lock", "train=step.plan"],
        "ledger": ["ledger", "jobs.ledger"],
        "report": ["report", "step.plan"],
        "export-onnx": ["export-onnx", "--onnx", "net.onnx", "--checkpoint", "net.st", "-o",
                        "new.onnx"],
        "tokens": ["tokens", "--tokenizer", "tokenizer.json", "count", "text.txt"],
        "models": ["models"],
    }


def options_of(commands, command):
    """Its long options: name -> (whether it takes a value, values that the help names)."""
    text = commands.run([command, "--help"]).stdout.decode()
    options = {}
    for match in re.finditer(r"^  (?:-\w,)?(--[a-z-]+)( [A-Z]+\S*)?(.*)$", text, re.MULTILINE):
        words = re.findall(r"[a-z0-9][a-z0-9_-]+", match[3])
        options[match[1]] = (bool(match[2]), words)
    options.pop("--help", None)
    return options


# Values that are right for some subject.
RIGHT = {
    "--budget": ["64KiB", "1MB", "300MB", "60%"], "--clip-norm": ["1"], "--dim": ["batch=2"],
    "--dtype": ["bf16", "f16", "f32"], "--ema": ["0.9"], "--eval-every": ["1"], "--freeze": ["*.bias", "fc1.weight"],
    "--hold-out": ["0.25"], "--init": ["weights.safetensors", "run.st"],
    "--init-rename": ["fc1.weight=fc1.weight"], "--recompute-keep": ["fc1"], "--keep-last": ["2"],
    "--label-smoothing": ["0.1"], "--lengths": ["8,16"], "--lora-alpha": ["3"],
    "--lora-rank": ["2"], "--lora-targets": ["*c_fc*", "*q_proj*"], "--lr": ["0.1", "1e-3"],
    "--metrics": ["accuracy", "top5,f1_macro,f1_micro,mean_iou"], "--micro-batches": ["2", "auto"], "--min-lr": ["1e-6"], "--momentum": ["0.9"],
    "--no-decay": ["*"], "--op-times": ["op.times"], "--patience": ["1"], "--power": ["2"],
    "--prompt": ["a"], "--region": ["sram=4MB", "sram=64KB"], "--ranks": ["1", "2"], "--resume": ["run.st"], "--save-every": ["1"],
    "--seed": ["7"], "--shape": ["x=2,3,16,16"], "--stop-at": ["1"], "--temperature": ["0.5"],
    "--simd": ["16", "64"],
    "--threads": ["1", "2"], "--top-k": ["3"], "--top-p": ["0.9"], "--warmup": ["1"],
    "--weight-decay": ["0.1"], "--adapter": ["adapter"], "--capacity": ["1MiB"],
    "--objective": ["sft", "dpo", "ipo", "orpo", "simpo", "kto", "classify", "embed"], "--beta": ["0.5"],
    "--hidden-dropout": ["0", "0.1"], "--attention-dropout": ["0", "0.1"],
    "--classifier-dropout": ["0", "0.3"], "--pooling": ["mean", "cls", "lasttoken"],
    "--similarity-scale": ["20"], "--negatives": ["0", "1"], "--query-prompt": ["film"],
    "--document-prompt": ["film"],
    "--gamma": ["0.5"], "--lora-plus": ["16"],
    "--lora-init": ["uniform", "pissa"],
    "--offload-dir": [".", "new-none"], "--config": ["config.toml"], "--continue": ["new.st"], "--save": ["new.st"],
    "--save-weights": ["new.safetensors"], "--svg": ["new.svg"], "--html": ["new.html"],
    "--certificate": ["new.certificate"],
    "--log": ["new.csv"], "--output": ["new.out"], "--plan-cache": ["plans"],
    "--save-adapter": ["new-adapter", "new-adapter.gguf"], "--save-onnx": ["new.onnx"],
    "--save-merged": ["new-merged.safetensors", "new-merged.gguf", "new-merged"],
    "--merged-type": ["q8_0", "q4_k_m", "f32"],
}
# Options whose files are written.
OUTPUTS = {"-o", "--output", "--svg", "--html", "--certificate", "--save", "--continue",
           "--save-weights", "--log", "--save-onnx", "--save-merged", "--save-adapter", "--plan-cache"}


def inputs_of(words):
    """The files that a command names as inputs, folders with all that is in them. The last
    value of an option counts, as it does for the command."""
    named, values = set(), {}
    for before, word in zip([""] + words, words):
        option, _, value = word.partition("=")
        if word.startswith("--"):
            values |= {option: value} if value else {}
        elif before.startswith("-") and "=" not in before:
            values[before] = word
        elif not word.startswith("-"):
            named.add(word)
    return named | {value for option, value in values.items() if option not in OUTPUTS}


# What would only take long.
BOUNDED = {"--steps": ["0", "1", "2", "3", "02", "-1", ""], "--epochs": ["0", "1", "-1", "x"],
           "--time-limit": ["0", "1", "2", "-1", "nan"], "--batch": ["0", "1", "6", "16", "010"],
           "--seq": ["0", "1", "8", "16", "-8"], "--sample": ["0", "1", "5", "-1"]}


def random_options(commands, count, draw):
    table = {name: (words, options_of(commands, words[0])) for name, words in subjects().items()}
    for _ in range(count):
        words, options = table[draw.choice(sorted(table))]
        words = list(words)
        for option in draw.choices(sorted(options), k=draw.choice([1, 1, 2, 2, 3, 4, 6])):
            takes_value, named = options[option]
            if not takes_value and draw.random() < 0.95:
                words.append(option)
                continue
            right = RIGHT.get(option) or named or ODD
            values = BOUNDED.get(option) or draw.choice([right, right, named or ODD, ODD, FILES])
            value = draw.choice(values)
            words += [f"{option}={value}"] if draw.random() < 0.3 else [option, value]
        yield words, None


def damaged(data, draw):
    """`data` with one to four changes."""
    data = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.randrange(len(data) + 1)
        if draw.random() < 0.5:  # where headers are
            at = min(at, draw.randrange(min(len(data), 512) + 1))
        kind = draw.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at:at + draw.choice([1, 8, 64])]
        elif kind == 3:
            data[at:at] = draw.choice([b"\0", b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe", b"-",
                                       b"9" * 30, b'"', b"1e999", b"\xef\xbb\xbf", b"nan", b",,"])
        elif kind == 4:
            data[at:at] = data[at:at + draw.choice([8, 64, 4096])]
        elif kind == 5:
            data[at:at + 8] = draw.choice([b"\xff" * 8, b"\0" * 8, b"\xff" * 7 + b"\x7f",
                                           b"\0\0\0\0\0\0\0\x80"])
        else:
            numbers = list(re.finditer(rb"[0-9]+", data[:65536]))
            if numbers:
                place = draw.choice(numbers)
                data[place.start():place.end()] = draw.choice(
                    [b"0", b"-1", b"18446744073709551616", b"9223372036854775807", b"1e400", b""])
    return bytes(data)


# FILE: the commands that read it.
READERS = {
    "digits.csv": ["train mlp"], "text.txt": ["train text", "finetune", "tokens"],
    "net.onnx": ["plan onnx", "compile onnx", "train onnx", "export-onnx"], "net.npz": ["train onnx"],
    "graph.ir": ["plan graph", "compile graph"], "step.plan": ["check", "report", "lock"],
    "memory.lock": ["lock"], "jobs.ledger": ["ledger"],
    "tokenizer.json": ["tokens", "finetune"], "pack.csv": ["pack"], "llama.gguf": ["finetune"],
    "films.csv": ["finetune labels"], "queries.jsonl": ["finetune queries"], "bert/config.json": ["finetune labels"],
    "bert/tokenizer.json": ["finetune labels"],
    "chats.jsonl": ["finetune folder"], "pairs.jsonl": ["finetune pairs"], "llama/config.json": ["finetune folder"],
    "net.st": ["export-onnx"], "run.st": [["train mlp", "--resume", "run.st"]],
    "weights.safetensors": [["train mlp", "--init", "weights.safetensors"],
                            ["compile mlp", "--init", "weights.safetensors"]],
    "op.times": [["plan mlp", "--op-times", "op.times"]],
    "adapter/adapter_config.json": [["finetune", "--adapter", "adapter"]],
    "adapter/adapter_model.safetensors": [["finetune", "--adapter", "adapter"]],
    "config.toml": [["plan mlp", "--config", "config.toml"]],
}


def command_of(reader):
    name, *more = [reader] if isinstance(reader, str) else reader
    return [*subjects()[name], *more]


def reading():
    """The commands of READERS."""
    return [command_of(reader) for readers in READERS.values() for reader in readers]


def random_files(commands, count, draw):
    whole = {name: (commands.folder / name).read_bytes() for name in READERS}
    whole |= {path.relative_to(commands.folder).as_posix(): path.read_bytes()
              for path in (commands.folder / "llama").iterdir() if path.suffix == ".safetensors"}
    readers = {**READERS, **{name: ["finetune folder"] for name in whole if name not in READERS}}
    for _ in range(count):
        name = draw.choice(sorted(whole))
        words = command_of(draw.choice(readers[name]))
        yield words, (name, damaged(whole[name], draw))


def fault_of(commands, words, damage, whole, codes):
    """What is wrong with a run, or None; its exit code is counted in `codes`."""
    if damage:
        (commands.folder / damage[0]).write_bytes(damage[1])
    before = {**whole, **({commands.folder / damage[0]: hashlib.sha256(damage[1]).digest()}
                          if damage else {})}
    done = commands.run(words)
    after, fault = commands.digests(), None
    codes[done and done.returncode] += 1
    if done is None:
        fault = f"goes on after {SECONDS} s"
    elif done.returncode not in CODES:
        fault = f"ends by {done.returncode}: {done.stderr.decode(errors='replace')[-300:]}"
    elif done.returncode != 0 and not (done.stderr or done.stdout).strip():
        fault = f"ends by {done.returncode}, and prints nothing"
    else:
        named = inputs_of(words)
        changed = [name for path, digest in before.items() if after.get(path) != digest
                   for name in [path.relative_to(commands.folder).as_posix()]
                   if name in named or name.split("/")[0] in named]
        if changed:
            fault = "changes " + ", ".join(changed)
    return fault


def check_runs(stowage, make, count, seed):
    """Runs on every processor; each has a folder of its own, made anew after a change."""
    def part(index, parts):
        commands = Commands(stowage)
        commands.make_files()
        kept = commands.folder.with_name(commands.folder.name + ".kept")
        shutil.copytree(commands.folder, kept, symlinks=True)
        whole, failed = commands.digests(), 0
        draw = random.Random(f"{seed} {index}")
        for words, damage in make(commands, count // parts + (index < count % parts), draw):
            fault = fault_of(commands, words, damage, whole, codes)
            if fault:
                failed += 1
                print(f"FAILED: {' '.join(map(repr, words))}"
                      f"{f' with {damage[0]} damaged' if damage else ''}: {fault}", flush=True)
                if damage:
                    found = tempfile.mkdtemp(prefix="damaged-")
                    pathlib.Path(found, os.path.basename(damage[0])).write_bytes(damage[1])
                    print(f"  the file: {found}", flush=True)
            shutil.rmtree(commands.folder)
            shutil.copytree(kept, commands.folder, symlinks=True)
        shutil.rmtree(commands.folder)
        shutil.rmtree(kept)
        return failed

    parts, codes = os.cpu_count(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(parts) as pool:
        failed = sum(pool.map(lambda index: part(index, parts), range(parts)))
    print("exit codes:", ", ".join(f"{code}: {times}" for code, times in codes.most_common()))
    return count - failed, failed


def processes_of(pid):
    """Those that run: of `pid` itself, or of an mpirun its ranks."""
    found = []
    for process in os.listdir("/proc"):
        if not process.isdigit():
            continue
        try:
            name, _, rest = pathlib.Path("/proc", process, "stat").read_text().rpartition(")")
        except OSError:
            continue  # it has ended
        state, parent = rest.split()[:2]
        own = int(name.split()[0])
        if state != "Z" and "mpirun" not in name and pid in (own, int(parent)):
            found.append(own)
    return found


def read_all(descriptor):
    """Reads until nobody writes any more."""
    while os.read(descriptor, 1 << 16):
        pass


def stop_once(commands, ranks, output, asked, draw):
    """Stops a run that is well under way; what is wrong then, or None."""
    file = f"{ranks}-{output}-{draw.randrange(10**9)}.st"
    words = [commands.stowage, "train", "--model", "mlp", "--data", "digits.csv", "--batch", "24",
             "--steps", "100000000", "--device", "cpu", "--threads", "1", "--sample", "0",
             "--json", "--save", file, "--log", file + ".csv"]
    if ranks > 1:
        # mpirun kills its ranks some seconds after the signal, saved or not: by default one.
        words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca",
                 "odls_base_sigkill_timeout", "5", "-n", str(ranks), *words]
    ours, theirs = os.pipe()
    out = open("/dev/full", "wb") if output == "full" else theirs
    # A script's background job ignores SIGINT, and so would what it starts.
    run = subprocess.Popen(words, cwd=commands.folder, stdin=subprocess.DEVNULL, stdout=out,
                           stderr=subprocess.PIPE, start_new_session=True,
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    os.close(theirs)
    if output == "full":
        out.close()
    # mpirun hands a signal on only after what it holds of the ranks' output is written, so a
    # reader that falls behind makes its own delay.
    reader = None
    if output == "read":
        reader = threading.Thread(target=read_all, args=(ours,))
        reader.start()
    log, began, steps = commands.folder / (file + ".csv"), time.monotonic(), 0
    goal = draw.choice([3, 30, 300])
    try:
        # A pipe that nobody reads is full after some hundred steps, and all wait.
        while steps < goal and not (steps > 3 and time.monotonic() - began > 5):
            steps = log.read_bytes().count(b"\n") if log.exists() else 0
            if output == "full" and run.poll() is not None:
                break
            if time.monotonic() - began > 60 or run.poll() is not None:
                return f"ends before it is asked to: {run.stderr.read(300)}"
            time.sleep(0.01)
        if output == "closed":
            os.close(ours)
            ours = -1
        asked_at, asked_by_clock = time.monotonic(), time.time()
        if run.poll() is None:
            run.send_signal(asked)
        # mpirun itself waits for a reader of its own output, for ever, after its ranks have
        # ended, or before it hands the signal on. A batch system signals the ranks as well.
        is_handed_on = False
        while processes_of(run.pid) and time.monotonic() - asked_at < 30:
            if (not is_handed_on and time.monotonic() - asked_at > 3
                    and "pipe_write" in pathlib.Path(f"/proc/{run.pid}/wchan").read_text()):
                is_handed_on = True
                asked_at, asked_by_clock = time.monotonic(), time.time()
                for rank in processes_of(run.pid):
                    os.kill(rank, asked)
            time.sleep(0.01)
        took = time.monotonic() - asked_at
        allowed = 2 if ranks == 1 else 8  # ranks end only when mpirun has slept its five
        if took > allowed:
            return f"takes {took:.1f} s to stop"
    finally:
        try:
            os.killpg(run.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        run.wait()
        if reader:
            reader.join()
        if ours >= 0:
            os.close(ours)
    saved = commands.folder / file
    if saved.exists() and (took := saved.stat().st_mtime - asked_by_clock) > allowed:
        return f"takes {took:.1f} s to save"
    step = re.search(rb'"step":"(\d+)"', saved.read_bytes()) if saved.exists() else None
    if step is None:
        return "has saved nothing"
    again = commands.run(["train", "--model", "mlp", "--data", "digits.csv", "--batch", "24",
                          "--steps", "100000000", "--stop-at", str(int(step[1]) + 2), "--device",
                          "cpu", "--sample", "0", "--resume", file])
    if again is None or again.returncode != 0:
        return f"its checkpoint does not load: {again and again.stderr.decode()[-300:]}"
    return None


def check_stops(stowage, count, seed):
    commands = Commands(stowage)
    commands.make_files()
    draw, failed = random.Random(seed), 0
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(os.cpu_count())]
    try:
        for index in range(count):
            ranks = (1, 2, 4)[index % 3] if shutil.which("mpirun") else 1
            output = ("read", "unread", "closed", "full")[index // 3 % 4]
            asked = (signal.SIGTERM, signal.SIGINT)[index // 12 % 2]
            fault = stop_once(commands, ranks, output, asked, draw)
            if fault:
                failed += 1
                print(f"FAILED: {ranks} ranks, output {output}, {asked.name}: {fault}", flush=True)
    finally:
        for each in busy:
            each.kill()
        shutil.rmtree(commands.folder)
    return count - failed, failed


def main():
    if len(sys.argv) not in (4, 5) or sys.argv[2] not in ("options", "files", "stops"):
        sys.exit(__doc__)
    stowage, count = os.path.abspath(sys.argv[1]), int(sys.argv[3])
    seed = sys.argv[4] if len(sys.argv) == 5 else "1"
    if sys.argv[2] == "stops":
        passed, failed = check_stops(stowage, count, seed)
    else:
        make = random_options if sys.argv[2] == "options" else random_files
        passed, failed = check_runs(stowage, make, count, seed)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
