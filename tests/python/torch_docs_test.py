"""The examples of docs/guides/importing.md, as they stand there. Runs where torch is installed, and
the one of transformers where that is (tests/using/torch.sh)."""

import ctypes
import importlib.util
import os
import re
import tempfile
import unittest

import numpy as np
import support

import stowage
from compiled import Library

if importlib.util.find_spec("torch"):
    import torch
    from torch import nn
    from torch.nn import functional as F


@unittest.skipUnless(importlib.util.find_spec("torch"), "no torch here")
class TorchDocsTest(support.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        with open("docs/guides/importing.md", encoding="utf-8") as file:
            self.examples = re.findall(r"^```python\n(.*?)^```", file.read(), re.M | re.S)

    def run_example(self, words, **names):
        (found,) = [each for each in self.examples if words in each]
        names.update(stowage=stowage, torch=torch)
        exec(compile(found, "example", "exec"), names)
        return names

    def test_there_is_a_test_for_each(self):
        self.assertEqual(len(self.examples), 4)

    def test_forms_of_modules_and_losses(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.head = nn.Embedding(9, 6), nn.Linear(6, 4)

            def forward(self, x=None, mask=None, input_ids=None):
                if input_ids is not None:
                    hidden = self.table(input_ids)
                    return {"hidden": hidden, "logits": self.head(hidden)}
                return self.head(x) if mask is None else self.head(x) * mask

        x, y = torch.randn(8, 6), torch.arange(8) % 4
        done = self.run_example("example_labels=y", net=Net(), x=x, y=y, mask=torch.ones(8, 4),
                                ids=torch.arange(8).reshape(4, 2), judge=F.cross_entropy)
        self.assertGreater(done["trainer"].step(x, y), done["trainer"].step(x, y))

    def test_a_step_in_c_names_the_lines_of_forward(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.hidden, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

            def forward(self, x):
                h = torch.tanh(self.hidden(x))
                return self.head(h)

        model = stowage.from_torch(Net(), torch.randn(4, 6))
        with tempfile.TemporaryDirectory() as folder:
            step = stowage.plan(model, optimizer="sgd", device="c").to_c(f"{folder}/step.c")
            with open(step.source, encoding="utf-8") as file:
                source = file.read()
        first = Net.forward.__code__.co_firstlineno
        for line in (first + 1, first + 2):
            self.assertIn(f"(torch_docs_test.py:{line})", source)

    def test_a_step_in_c_goes_on_as_torch_does(self):
        net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(),
                            nn.Linear(32, 4))
        x, y = torch.randn(64, 6), torch.arange(64) % 4
        with tempfile.TemporaryDirectory() as folder:
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(folder)
            done = self.run_example("to_c", net=net, x=x, y=y, print=lambda *figures: None)
            step = done["step"]
            self.assertLessEqual(step.arena_bytes, 16000)
            self.assertEqual(step.flash_bytes, 4 * sum(p.numel() for p in net.parameters()))
            library = Library(step)
            library.call("init", ctypes.c_uint64(1))
            optimizer = torch.optim.SGD(net[4].parameters(), lr=0.1)
            for i in range(5):
                rows = slice(4 * i, 4 * i + 4)
                library.value("input_input", (4, 6))[:] = x[rows].numpy()
                library.value("input_labels", (4,), np.int64)[:] = y[rows].numpy()
                library.value("input_lr")[0] = 0.1
                self.assertEqual(library.call("step"), 0)
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x[rows]), y[rows])
                loss.backward()
                optimizer.step()
                self.assertAlmostEqual(library.value("output_loss")[0], loss.item(), 5)

    def test_a_loop_of_torchs(self):
        net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 4))
        x = torch.randn(128, 6)
        data = torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
        before = F.cross_entropy(net(x), data.tensors[1]).item()
        done = self.run_example("DataLoader", net=net, data=data)
        self.assertEqual(done["trainer"].steps, 8)
        self.assertEqual(done["trainer"].lr, 0)
        self.assertLess(F.cross_entropy(net(x), data.tensors[1]).item(), before)
        self.assertEqual({int(state["step"]) for state in done["optimizer"].state.values()}, {8})

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "no transformers here")
    def test_a_model_of_transformers(self):
        import transformers

        words = ["good", "bad", "a", "film"]
        with tempfile.TemporaryDirectory() as folder:
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(folder)
            with open("vocab.txt", "w", encoding="utf-8") as file:
                file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
            transformers.BertTokenizerFast("vocab.txt").save_pretrained(".")
            config = transformers.BertConfig(
                vocab_size=9, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                intermediate_size=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
            net = transformers.BertForSequenceClassification(config)
            net.save_pretrained(".")
            rows = [{"text": f"a {words[i % 2]} film"} for i in range(80)]
            labels = torch.arange(80) % 2
            done = self.run_example(
                "from_pretrained", folder=".", rows=rows, labels=labels,
                AutoTokenizer=transformers.AutoTokenizer,
                AutoModelForSequenceClassification=transformers.AutoModelForSequenceClassification,
                get_linear_schedule_with_warmup=transformers.get_linear_schedule_with_warmup)
            self.assertEqual(done["trainer"].steps, 10)
            tuned = transformers.AutoModelForSequenceClassification.from_pretrained("tuned").eval()
            batch = {**done["encoded"](rows[:8]), "labels": labels[:8]}
            with torch.no_grad():
                loss = tuned(**batch).loss.item()
                self.assertLess(loss, net.eval()(**batch).loss.item())
            np.testing.assert_allclose(done["trainer"].evaluate(**batch)["loss"], loss, atol=1e-4)


if __name__ == "__main__":
    support.main()
