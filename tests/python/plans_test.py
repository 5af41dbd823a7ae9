"""Plans: their figures, and the words in which budgets are refused."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading

import numpy as np

import stowage
import support


class PlansTest(support.TestCase):
    def plan(self, **options):
        return stowage.plan("gpt-nano", 8, device="cpu", threads=1, **{"seq": 16, **options})

    def test_figures_are_attributes_and_add_up(self):
        plan = self.plan()
        self.assertEqual(plan.arena_bytes, sum(size for name, size in plan.regions.items()
                                               if not name.startswith("host")))
        self.assertEqual(plan.saved_bytes, plan.no_reuse_bytes - plan.arena_bytes)
        self.assertLessEqual(plan.lower_bound_bytes, plan.arena_bytes)
        self.assertEqual((plan.batch, plan.micro_batches, plan.recomputed_nodes), (8, 1, 0))
        self.assertIn("peak_node", dir(plan))
        with self.assertRaises(AttributeError):
            plan.no_such_figure

    def test_a_budget_is_kept_and_costs(self):
        whole = self.plan()
        budget = whole.arena_bytes * 6 // 10
        small = self.plan(budget=budget)
        self.assertLessEqual(small.arena_bytes, budget)
        self.assertEqual(small.budget_bytes, budget)
        self.assertGreater(small.recomputed_nodes + small.micro_batches + small.offloaded_values, 1)
        self.assertLessEqual(small.smallest_budget_bytes, small.arena_bytes)
        self.assertEqual(self.plan(budget=small.smallest_budget_bytes).arena_bytes,
                         small.smallest_budget_bytes)

    def test_a_saved_plan_names_the_device_whose_scratch_it_has(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.plan")
            self.plan().save(path)
            with open(path, encoding="utf-8") as file:
                self.assertRegex(json.load(file)["device"], r"^cpu with .+, 1 thread$")

    def test_the_largest_batch_that_fits_is_that_of_trying_all(self):
        for optimizations in ("none", {"recompute": "auto"}):
            budget = self.plan().arena_bytes * 5 // 4
            plan = self.plan(budget=budget, optimizations=optimizations)
            largest = plan.largest()

            def fits(batch):
                try:
                    stowage.plan("gpt-nano", batch, budget, optimizations, device="cpu",
                                 threads=1, seq=16)
                except stowage.BudgetTooSmall:
                    return False
                return True

            self.assertGreater(largest.value, 8)
            self.assertTrue(fits(largest.value))
            self.assertFalse(fits(largest.value + 1))
            self.assertLessEqual(largest.need_bytes, budget)
            self.assertEqual(largest.next, largest.value + 1)
            self.assertGreater(largest.next_need_bytes, budget)
            self.assertIsNone(largest.next_refusal)
        # A budget of its own, and a bound that is the model's.
        longest = self.plan(optimizations="none").largest("seq", budget="1GB")
        self.assertEqual((longest.value, longest.next_need_bytes), (256, None))
        self.assertIn("out of range", longest.next_refusal)
        # In equal micro-batches.
        split = self.plan(budget=budget, optimizations={"micro_batches": 4})
        self.assertEqual(split.largest().value % 4, 0)
        self.raises(stowage.InvalidArgument, "any batch fits", self.plan(
            optimizations={"micro_batches": "auto"}, budget=budget).largest)
        self.raises(stowage.InvalidArgument, "nothing bounds the batch", self.plan().largest)
        self.raises(stowage.BudgetTooSmall, "the least value, 1, needs", plan.largest, budget=1000)

    def test_optimizations_by_name(self):
        budget = self.plan(seq=64).arena_bytes * 7 // 10
        micro_batches = self.plan(seq=64, budget=budget, optimizations={"micro_batches": 8})
        self.assertEqual((micro_batches.micro_batches, micro_batches.recomputed_nodes), (8, 0))
        self.raises(stowage.BudgetTooSmall, "smallest budget that works", self.plan,
                    seq=64, budget=budget, optimizations="none")
        self.raises(stowage.InvalidArgument, 'no optimization "shrink"', self.plan,
                    optimizations={"shrink": "auto"})
        self.raises(stowage.InvalidArgument, '"dear"', self.plan,
                    optimizations={"recompute": "dear"})

    def test_a_plan_is_for_a_cpu_target(self):
        target = stowage.cpu_target()
        self.assertIn(target, ("native", "v2", "v3", "v4", "v4-bf16"))
        self.assertEqual(self.plan(cpu_target=target).arena_bytes, self.plan().arena_bytes)
        self.raises(stowage.InvalidArgument, 'no CPU target "v9"', self.plan, cpu_target="v9")
        code = ("import stowage\n"
                "for make in (stowage.plan, stowage.Trainer):\n"
                "    try: make('mlp', 8, device='cpu')\n"
                "    except stowage.InvalidArgument as error: print(error)\n"
                "stowage.cpu_target()")
        asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                               env={**os.environ, "STOWAGE_CPU_TARGET": "v9"}, check=False)
        refusal = 'STOWAGE_CPU_TARGET is "v9": there is no CPU target "v9" in this build'
        self.assertEqual(asked.stdout.count(refusal), 2, asked.stdout)
        self.assertEqual(asked.stderr.count(refusal), 1, asked.stderr)
        self.assertEqual(asked.returncode, 1)

    def test_values_are_kept_or_recomputed_by_their_names(self):
        def names(plan):
            return [each["name"] for each in plan.recomputed]

        name = "h.0.mlp.gelu"
        self.assertEqual(names(self.plan()), [])
        # Without a budget nothing runs again but what is named.
        recomputed = self.plan(recompute_always=[name, "h.2.mlp.gelu"])
        self.assertEqual(names(recomputed), [name, "h.2.mlp.gelu"])
        self.assertEqual(recomputed.recomputed_nodes, 2)
        budget = self.plan(optimizations={"recompute": "auto"},
                           recompute_keep=[name]).smallest_budget_bytes
        kept = self.plan(budget=budget, optimizations={"recompute": "auto"}, recompute_keep=[name])
        self.assertNotIn(name, names(kept))
        self.assertIn("h.1.mlp.gelu", names(kept))
        for row in kept.recomputed:
            self.assertGreater(row["bytes_freed"], 0)
            self.assertGreaterEqual(row["times"], 1)
        for what in ("recompute_keep", "recompute_always"):
            self.raises(stowage.InvalidArgument,
                        f'[optimizations] {what} names "{name}", and nothing '
                        "runs again", self.plan, optimizations="none", **{what: [name]})
            self.raises(stowage.NotFound, 'no value "h.9"', self.plan, **{what: ["h.9"]})
            self.raises(TypeError, f"[{what}] '{name}' is no list", self.plan, **{what: name})

    def test_a_budget_may_be_a_share(self):
        whole = self.plan()
        for share in (0.6 * whole.arena_bytes, np.float64(0.6) * whole.arena_bytes):
            self.assertEqual(self.plan(budget=share).budget_bytes, int(0.6 * whole.arena_bytes))
        self.assertEqual(self.plan(budget=np.int64(whole.arena_bytes)).budget_bytes,
                         whole.arena_bytes)

    def test_a_budget_that_is_too_small_is_a_memory_error(self):
        with self.assertRaises(MemoryError) as caught:
            self.plan(budget="1MB")
        self.assertIs(type(caught.exception), stowage.BudgetTooSmall)
        self.assertIn("budget 976.6 KiB", str(caught.exception))

    def test_budgets_that_are_no_sizes(self):
        for budget, words in ((float("nan"), "nan"), (float("inf"), "inf"), (-1, "-1"),
                              (0, "0"), (0.5, "0.5"), (1 << 63, "63 bits"),
                              (np.float64("nan"), "nan")):
            self.raises(stowage.InvalidArgument, words, self.plan, budget=budget)
        for budget in ("many", "-3MB", "nan", ""):
            self.raises(stowage.InvalidArgument, "", self.plan, budget=budget)
        for budget in (True, [1], b"1MB", 1j):
            self.raises(TypeError, "is no size", self.plan, budget=budget)
        self.raises(stowage.InvalidArgument, "batch", stowage.plan, "mlp", 0)

    def test_optimizers_and_their_settings(self):
        plan = self.plan(optimizer={"name": "momentum", "momentum": 0.5})
        self.assertEqual(plan.optimizer, "momentum")
        self.raises(stowage.InvalidArgument, 'adamw has no setting "momentum"', self.plan,
                    optimizer={"name": "adamw", "momentum": 0.9})
        self.raises(stowage.InvalidArgument, "2", self.plan,
                    optimizer={"name": "momentum", "momentum": 2})
        self.raises(stowage.InvalidArgument, "no-such", self.plan, freeze=["no-such*"])
        self.raises(TypeError, "[freeze] '*.bias' is no list", self.plan, freeze="*.bias")

    def test_optimizers_as_torch_calls_them(self):
        for name, given in (
                ("adamw", {"optimizer": "AdamW"}),
                ("rmsprop", {"optimizer": {"name": "RMSprop", "alpha": 0.9, "eps": 1e-6}}),
                ("sgd", {"optimizer": {"name": "SGD", "momentum": 0, "nesterov": False}}),
                ("momentum", {"optimizer": "SGD", "momentum": 0.9}),
                ("momentum", {"optimizer": {"name": "sgd", "momentum": 0.9, "lr": 0.1}}),
                ("nesterov", {"optimizer": {"name": "SGD", "momentum": 0.9, "nesterov": True}}),
                ("adafactor", {"optimizer": {"name": "Adafactor", "d": 2.0}})):
            self.assertEqual(self.plan(**given).optimizer, name)
        for words, given in (
                ("momentum is given twice: 0.5",
                 {"optimizer": {"name": "SGD", "momentum": 0.9}, "momentum": 0.5}),
                ("weight_decay is given twice",
                 {"optimizer": {"name": "SGD", "decay": 0.9}, "weight_decay": 0.5}),
                ("decay is given twice", {"optimizer": {"name": "SGD", "decay": 1,
                                                        "weight_decay": 1}}),
                ("nesterov wants a momentum", {"optimizer": {"name": "SGD", "nesterov": True}}),
                ("betas are 0.9; expected two", {"optimizer": {"name": "Adam", "betas": 0.9}}),
                ("decay is -1.0; expected", {"optimizer": "SGD", "weight_decay": -1}),
                ("decay is inf; expected", {"weight_decay": float("inf")}),
                ('"Nadam"', {"optimizer": "Nadam"})):
            self.raises(stowage.InvalidArgument, words, self.plan, **given)

    def test_all_optimizers_and_all_their_settings_are_listed(self):
        listed = stowage.optimizers()
        # docs/reference/optimizers.md has a row of each.
        self.assertLessEqual({"sgd", "momentum", "adamw", "adamw8bit", "lion", "adafactor",
                              "muon"}, set(listed))
        self.assertEqual(listed["sgd"], {"lr": 0.1, "decay": 0})
        self.assertEqual(listed["adamw"], {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999,
                                           "eps": 1e-8, "decay": 0.01, "amsgrad": False})
        self.assertEqual(listed["adafactor"], {"lr": 1e-2, "beta2_decay": -0.8, "clip": 1,
                                               "decay": 0, "eps1": 0, "eps2": 1e-3,
                                               "by_last_axes": False})
        for name, settings in listed.items():
            given = {key: value for key, value in settings.items() if key != "lr"}
            plan = stowage.plan("mlp", 8, optimizer={"name": name, **given}, device="cpu",
                                threads=1)
            self.assertEqual(plan.optimizer, name)
        self.raises(stowage.InvalidArgument,
                    'sgd has no setting "eps"; it has decay', self.plan,
                    optimizer={"name": "sgd", "eps": 1})
        self.raises(stowage.InvalidArgument, "amsgrad is 2; expected True or False", self.plan,
                    optimizer={"name": "adam", "amsgrad": 2})

    def test_a_group_has_its_own_optimizer(self):
        groups = [{"pattern": "fc1.*", "optimizer": {"name": "AdamW", "betas": (0.8, 0.9)}},
                  {"pattern": "fc2.weight", "optimizer": "nadam", "maximize": True}]
        with stowage.Trainer("mlp", 8, optimizer="sgd", groups=groups, device="cpu") as trainer:
            self.assertEqual(trainer.plan.optimizer, "sgd")
            for name in ("fc1.weight.m", "fc1.bias.v", "fc2.weight.mu_product"):
                trainer.read(name)
            self.raises(stowage.NotFound, "fc2.bias.m", trainer.read, "fc2.bias.m")
        for error, words, group in (
                (stowage.InvalidArgument, "beta2 is 1; expected at least 0 and below 1",
                 {"optimizer": {"name": "adam", "beta2": 1}}),
                (stowage.InvalidArgument, 'there is no optimizer "lamb"', {"optimizer": "lamb"}),
                (stowage.InvalidArgument, "has ['rate']; expected pattern, and decay, lr_scale, "
                 "frozen, optimizer or maximize", {"rate": 1}),
                (TypeError, "the optimizer of a group is 3", {"optimizer": 3})):
            self.raises(error, words, self.plan, groups=[{"pattern": "*", **group}])

    def test_choices_that_are_none(self):
        for words, options in (
                ("[optimizations] None is no choice", {"optimizations": None}),
                ("[optimizations] ['recompute'] is no choice", {"optimizations": ["recompute"]}),
                ("[optimizer] 3 is none", {"optimizer": 3}),
                ("[decay] '0.1' is no number", {"optimizer": {"name": "sgd", "decay": "0.1"}}),
                ("[groups] 'wte' is no group", {"groups": ["wte"]}),
                ("[clip_norm] 'one' is no number", {"clip_norm": "one"})):
            self.raises(TypeError, words, self.plan, **options)

    def test_what_is_no_model(self):
        module = type("Linear", (), {"__module__": "torch.nn.modules.linear",
                                     "__call__": lambda self, x: x})()
        for source, words in ((module, "a Linear of torch is no model yet; expected what "
                                       "stowage.from_torch(module, example_inputs)"),
                              (None, "a NoneType is no model"), (7, "a int is no model")):
            self.raises(TypeError, words, stowage.plan, source)
        with tempfile.TemporaryDirectory(suffix=".onnx") as folder:
            self.raises(stowage.FileError, "cannot be read: Is a directory", stowage.plan,
                        folder)

    def test_the_device_that_works_may_be_asked_for(self):
        plan = stowage.plan("mlp", 8, device="auto", threads=1)
        with stowage.Trainer("mlp", 8, device="auto", threads=1) as trainer:
            self.assertEqual(plan.regions, trainer.plan.regions)
        self.raises(stowage.InvalidArgument, 'no device "tpu"', stowage.plan, "mlp", 8,
                    device="tpu")

    def test_threads_take_turns_with_one_plan(self):
        def mlp():
            return stowage.plan("mlp", 8, device="cpu", threads=1)

        expected = mlp()
        frontier, smallest = expected.frontier(), expected.smallest_budget_bytes
        plan, found = mlp(), []

        def ask(what):
            found.append(plan.frontier() == frontier if what else
                         plan.smallest_budget_bytes == smallest)

        threads = [threading.Thread(target=ask, args=(i % 2,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [True] * 6)

    def test_a_child_that_was_forked_in_the_midst_of_a_search_is_told(self):
        plan, calls = None, []
        searching, forked = threading.Event(), threading.Event()

        def build(g, batch):
            support.softmax_net(g, batch)
            calls.append(batch)
            if plan:  # by what searches in the plan
                searching.set()
                forked.wait(60)

        made = stowage.plan(build, 64, device="cpu", threads=1,
                            optimizations={"micro_batches": "auto"})
        plan = made
        thread = threading.Thread(target=lambda: plan.smallest_budget_bytes)
        thread.start()
        self.assertTrue(searching.wait(60))
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                made.frontier()
            except stowage.Forked as error:
                os._exit(0 if "make the plan in the child" in str(error) else 2)
            os._exit(1)
        forked.set()
        thread.join()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertGreater(made.smallest_budget_bytes, 0)

    def test_groups_that_are_none(self):
        for group, words in (({"decay": 0}, "has no pattern"),
                             ({"pattern": "*", "lr": 1}, "has ['lr']"),
                             ({"pattern": "*", "decay": -1.0}, "-1"),
                             ({"pattern": "*", "lr_scale": float("nan")}, "nan"),
                             ({"pattern": "none*"}, "none*")):
            self.raises(stowage.InvalidArgument, words, self.plan, groups=[group])

    def test_what_a_step_moves_is_a_table(self):
        plan = stowage.plan("mlp", 8, optimizer="sgd", device="cpu", threads=1)
        traffic = plan.traffic()
        families = {row["family"]: row for row in traffic}
        for what in ("launches", "read_bytes", "written_bytes", "flops"):
            self.assertEqual(sum(row[what] for row in traffic), traffic.total[what])
            rest = sum(row[what] for row in traffic if row["family"] not in
                       ("products", "attention"))
            self.assertEqual(rest, traffic.without_products_and_attention[what])
        moved = [row["read_bytes"] + row["written_bytes"] for row in traffic]
        self.assertEqual(moved, sorted(moved, reverse=True))
        self.assertNotIn("roofline_seconds", traffic.total)
        self.assertIn("products", str(traffic))
        # A device that moves a byte a second, and computes at once.
        slow = plan.traffic("0.000000001:1000000000000")
        products = next(row for row in slow if row["family"] == "products")
        self.assertAlmostEqual(products["roofline_seconds"],
                               families["products"]["read_bytes"] +
                               families["products"]["written_bytes"])
        self.raises(stowage.InvalidArgument, 'no device "abacus"', plan.traffic, "abacus")

    def test_a_frontier_is_a_table_and_a_image(self):
        frontier = stowage.plan("mlp", 32, optimizations={"recompute": "auto", "offload": "auto"},
                                device="cpu", threads=1).frontier()
        budgets = [row["budget_bytes"] for row in frontier]
        self.assertGreater(len(budgets), 2)
        self.assertEqual(budgets, sorted(budgets, reverse=True))
        self.assertIsInstance(frontier, list)
        self.assertTrue(frontier._repr_html_().startswith("<svg"))

    def test_compared_saved_and_shown(self):
        whole, small = self.plan(), self.plan(budget="6MB")
        compared = whole.compare(small)
        self.assertEqual(compared.figures["difference"]["arena_bytes"],
                         small.arena_bytes - whole.arena_bytes)
        for shown in (whole, compared):
            cell = shown._repr_html_()
            self.assertTrue(cell.startswith('<iframe srcdoc="&lt;!'), cell[:40])
            self.assertEqual(cell.count('"'), 8)  # none of the page's own
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            whole.save(path)
            with open(path, encoding="utf-8") as file:
                saved = json.load(file)
            self.assertEqual((saved["format"], saved["graph"][:10]),
                             ("stowage-plan", "stowage-ir"))
            whole.save(path + ".html")
            with open(path + ".html", encoding="utf-8") as file:
                self.assertTrue(file.read().startswith("<!"))
            self.raises(stowage.FileError, "cannot be written", whole.save,
                        os.path.join(folder, "none", "plan.json"))

    def test_a_model_that_is_made_keeps_its_batch(self):
        made = stowage.model("mlp", batch=8)
        self.assertEqual(stowage.plan(made, 8, device="cpu", threads=1).batch, 8)
        self.raises(stowage.InvalidArgument, "batch is given for a model that is made already",
                    stowage.plan, made, 16)
        self.raises(stowage.InvalidArgument, "seq is given", stowage.plan, made, seq=4)

    def test_options_of_another_kind_of_model_are_refused(self):
        for source, option, words in (
                ("mlp", {"loss": "mse"}, "loss is given for a model by name, which takes batch, "
                                         "seq, dtype, dropout"),
                ("mlp", {"dims": {"n": 1}}, "dims is given for a model by name"),
                (support.softmax_net, {"dtype": "f32"}, "dtype is given for a function"),
                (b"", {"seq": 4}, "seq is given for an ONNX file")):
            self.raises(stowage.InvalidArgument, words, stowage.plan, source, 8, **option)

    def test_losses_are_on_the_page_by_their_steps(self):
        page = stowage.plan("mlp", 8, device="cpu", threads=1).to_html([3.25, 2.125])
        self.assertIn('"losses":[{"step":1,"loss":3.25},{"step":2,"loss":2.125}]', page)

    def test_a_plan_cache_answers_the_second_time(self):
        with tempfile.TemporaryDirectory() as folder:
            uses = [self.plan(budget="6MB", plan_cache=folder)._core.cache_use()
                    for _ in range(2)]
        self.assertEqual(uses[1], "hit")
        self.assertNotEqual(uses[0], "hit")

    def test_errors_have_one_base(self):
        for name in stowage.errors.__dict__.values():
            if isinstance(name, type):
                self.assertTrue(issubclass(name, stowage.StowageError))

    def test_a_plan_is_printed_as_the_command_prints_it(self):
        self.assertIn("lower bound", str(self.plan()))
        self.assertIn("stowage.Plan of", repr(self.plan()))

    def test_an_onnx_file_that_is_none(self):
        self.raises(stowage.InvalidArgument, "[onnx]", stowage.plan, b"no protobuf")
        self.raises(stowage.NotFound, 'no file "none.onnx"', stowage.plan, "none.onnx")

    def test_nothing_but_numpy_is_imported(self):
        code = ("import sys, stowage; "
                "print([m for m in ('torch', 'onnx', 'pandas') if m in sys.modules])")
        said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True,
                              text=True)
        self.assertEqual(said.stdout.strip(), "[]")


if __name__ == "__main__":
    support.main()
