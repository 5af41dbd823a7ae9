#include "train/run.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/layers.h"
#include "runtime/checkpoint.h"
#include "tests/support/files.h"
#include "tests/support/wrapped_backend.h"
#include "train/evaluation.h"
#include "train/run_checkpoints.h"
#include "train/training.h"

namespace stowage {
namespace {

using testing::EmptyFolder;

constexpr int64_t kBatch = 4, kFeatures = 3;

Result<Graph> Net(int64_t batch) {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {batch, kFeatures});
  const Value y = g.Input("y", DType::kF32, {batch, 1});
  const Value seed = g.Input("seed", DType::kI64, {});
  const Value step = g.Input("step", DType::kI64, {});
  const Value h =
      Dropout(Tanh(Linear(x, "fc1", 5)), seed, step, 0.25, /*id=*/0);
  g.Output("loss", MeanSquaredError(Linear(h, "fc2", 1), y));
  return g.Finish();
}

Training Open(const TrainOptions& options = {.optimizer = AdamW{}}) {
  static const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec{.model = Net, .batch = kBatch, .training = options};
  spec.shapes = {{.name = "small", .model = Net, .batch = 2}};
  return Train(std::move(spec), *cpu).OrDie();
}

// Numbers of the step alone.
std::vector<float> Numbers(int64_t size, int64_t step) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < size; ++i) {
    numbers.push_back(
        std::sin(static_cast<float>(step) * 1.7f + static_cast<float>(i)));
  }
  return numbers;
}

Status WriteNumbers(Runner& step, int64_t number, int64_t batch) {
  STOWAGE_RETURN_IF_ERROR(step.Write("x", Numbers(batch * kFeatures, number)));
  return step.Write("y", Numbers(batch, -number));
}

// Examples whose evaluations are given, by the step that they are behind.
class GivenData : public RunData {
 public:
  Status WriteBatch(Runner& step, int64_t number) override {
    last = number;
    if (number == bad_step) {
      STOWAGE_RETURN_IF_ERROR(WriteNumbers(step, number, kBatch));
      return step.Write(
          "y",
          std::vector<float>(kBatch, std::numeric_limits<float>::infinity()));
    }
    return WriteNumbers(step, number, ShapeOf(number) == 0 ? kBatch : 2);
  }
  size_t ShapeOf(int64_t step) override { return step == small_step ? 1 : 0; }
  int64_t tokens_per_step(size_t shape) const override {
    return shape == 0 ? kBatch : 2;
  }
  bool has_held_out() const override { return held_out != nullptr; }
  Result<std::optional<Evaluation>> Evaluate(Training& /*training*/) override {
    evaluated.push_back(last);
    return std::optional(Evaluation{.loss = held_out(last)});
  }

  std::function<double(int64_t)> held_out;
  std::vector<int64_t> evaluated;
  int64_t bad_step = 0, small_step = 0, last = 0;
};

class Record : public RunObserver {
 public:
  void OnStep(const StepFigures& figures) override { steps.push_back(figures); }
  void OnSkipped(const StepFigures& figures, const std::string& why,
                 std::string_view /*outcome*/) override {
    skipped.push_back(figures.step);
    reason = why;
  }
  int StopAsked() override {
    return static_cast<int64_t>(steps.size()) >= stop_after ? 15 : 0;
  }
  Status OnUnsaved(const Error& error) override {
    unsaved.push_back(error.message);
    return goes_on ? Status() : Status(error);
  }

  std::vector<float> losses() const {
    std::vector<float> all;
    for (const StepFigures& step : steps) {
      all.push_back(static_cast<float>(step.loss));
    }
    return all;
  }

  std::vector<StepFigures> steps;
  std::vector<int64_t> skipped;
  std::vector<std::string> unsaved;
  std::string reason;
  int64_t stop_after = std::numeric_limits<int64_t>::max();
  bool goes_on = false;
};

class FullDisk : public RunSaver {
 public:
  Status Save(Training& /*training*/, int64_t step,
              const EvaluationHistory& /*history*/,
              std::optional<double> /*held_out_loss*/,
              bool /*best_alone*/) override {
    return Error{ErrorCode::kIo, "no room for step " + std::to_string(step)};
  }
};

std::vector<float> Param(Training& training) {
  std::vector<float> values(kFeatures * 5);
  training.step().Read("fc1.weight", &values).OrDie();
  return values;
}

TEST_CASE("a run takes the steps that a loop by hand takes") {
  const TrainOptions options{.optimizer = AdamW{}, .clip_norm = 0.5};
  const RunSpec run{.steps = 7,
                    .schedule = {.peak = 0.02,
                                 .warmup = 2,
                                 .final_factor = 0.1,
                                 .kind = ScheduleKind::kLinear},
                    .seed = 5};
  Training by_hand = Open(options);
  by_hand.Initialize(3);
  Runner& step = by_hand.step();
  std::vector<float> losses, norms;
  // A warm-up of two steps, then a line from 0.02 to 0.002 behind the last one.
  const std::vector<double> rates = {0.01,   0.02,   0.0164, 0.0128,
                                     0.0092, 0.0056, 0.002};
  for (int64_t i = 1; i <= 7; ++i) {
    WriteNumbers(step, i, kBatch).OrDie();
    step.Write("lr", run.schedule.At(i, 7)).OrDie();
    step.Write("step", i).OrDie();
    step.Write("seed", 5).OrDie();
    REQUIRE(step.Step() == StepCode::kOk);
    losses.push_back(step.ReadScalar("loss").OrDie());
    norms.push_back(step.ReadScalar("grad_norm").OrDie());
  }
  Training training = Open(options);
  training.Initialize(3);
  GivenData data;
  Record record;
  const RunResult result =
      Run(training, run, {.data = data, .observer = &record}).OrDie();
  CHECK(record.losses() == losses);
  CHECK(Param(training) == Param(by_hand));
  CHECK(result.last_step == 7);
  CHECK(result.figures.steps == 7);
  CHECK(result.figures.loss == static_cast<double>(losses.back()));
  CHECK(!result.figures.heap_allocations);
  CHECK(!result.evaluation);
  for (size_t i = 0; i < 7; ++i) {
    CHECK(record.steps[i].lr == doctest::Approx(rates[i]));
    CHECK(static_cast<float>(record.steps[i].grad_norm.value()) == norms[i]);
    CHECK(record.steps[i].tokens == kBatch);
  }
}

TEST_CASE("a run takes its learning rates from a function where one is given") {
  const auto rate = [](int64_t step) {
    return 0.01 / static_cast<double>(step);
  };
  Training training = Open();
  training.Initialize(3);
  GivenData data;
  Record record;
  std::vector<int64_t> asked;
  Run(training,
      {.steps = 4,
       .schedule = {.peak = 5},
       .rate =
           [&](int64_t step) {
             asked.push_back(step);
             return rate(step);
           }},
      {.data = data, .observer = &record}, {.done = 1})
      .OrDie();
  CHECK(asked == std::vector<int64_t>{2, 3, 4});
  for (const StepFigures& step : record.steps)
    CHECK(step.lr == rate(step.step));
}

TEST_CASE("a run asks for the inputs of groups, step by step") {
  const TrainOptions options{
      .optimizer = Sgd{},
      .groups = {{.pattern = "fc1.*",
                  .optimizer = Momentum{},
                  .name = "first",
                  .inputs = {.lr = true, .momentum = true}}}};
  const auto value = [](std::string_view input, int64_t step) {
    return (input == "lr:first" ? 0.005 : 0.75) / static_cast<double>(step);
  };
  Training by_hand = Open(options);
  by_hand.Initialize(3);
  Runner& step = by_hand.step();
  for (int64_t i = 1; i <= 3; ++i) {
    WriteNumbers(step, i, kBatch).OrDie();
    step.Write("lr", 0.001).OrDie();
    step.Write("step", i).OrDie();
    step.Write("seed", 1).OrDie();
    step.Write("lr:first", value("lr:first", i)).OrDie();
    step.Write("momentum:first", value("momentum:first", i)).OrDie();
    REQUIRE(step.Step() == StepCode::kOk);
  }
  Training training = Open(options);
  training.Initialize(3);
  GivenData data;
  RunSpec run{.steps = 3, .rate = [](int64_t) { return 0.001; }};
  const Result<RunResult> refused = Run(training, run, {.data = data});
  REQUIRE(!refused.ok());
  CHECK(refused.error().message ==
        "[run] the step has the input \"lr:first\" of a param group, and "
        "group_input is empty; give a function");
  const StepInputs inputs(step.graph());
  CHECK(inputs.Write(step, {}).error().message ==
        "[step] 0 values are given for the 2 inputs of param groups, the first "
        "of which is \"lr:first\"");
  run.group_input = value;
  Run(training, run, {.data = data}).OrDie();
  CHECK(Param(training) == Param(by_hand));
}

// A device that works beside the host.
class BesideHost final : public testing::WrappedBackend {
  using WrappedBackend::WrappedBackend;
  bool works_on_its_own() const override { return true; }
};

TEST_CASE("no step begins before an observer has read the values of the last") {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 1});
  BesideHost device(*cpu);
  Training training =
      Train({.model = Net, .batch = kBatch, .training = {.optimizer = AdamW{}}},
            device)
          .OrDie();
  class Reader final : public RunObserver {
   public:
    Reader(Training& training, bool reads)
        : training_(training), reads_(reads) {}
    bool reads_values() const override { return reads_; }
    void OnStep(const StepFigures& /*figures*/) override {
      started.push_back(training_.step().started());
    }
    std::vector<uint64_t> started;

   private:
    Training& training_;
    const bool reads_;
  };
  training.Initialize(1);
  GivenData data;
  for (const bool reads : {false, true}) {
    const uint64_t before = training.step().started();
    Reader reader(training, reads);
    Run(training, {.steps = 3, .schedule = {.peak = 0.01}},
        {.data = data, .observer = &reader})
        .OrDie();
    for (uint64_t& count : reader.started) count -= before;
    CHECK(reader.started == (reads ? std::vector<uint64_t>{1, 2, 3}
                                   : std::vector<uint64_t>{2, 3, 3}));
  }
}

TEST_CASE("steps of another shape run by their own program") {
  Training training = Open();
  training.Initialize(3);
  GivenData data;
  data.small_step = 2;
  Record record;
  Run(training, {.steps = 3, .schedule = {.peak = 0.01}},
      {.data = data, .observer = &record})
      .OrDie();
  CHECK(training.Find("small")->started() == 1);
  CHECK(record.steps[1].tokens == 2);
  CHECK(record.steps[2].tokens == kBatch);
}

TEST_CASE("a run that was stopped goes on from its checkpoint") {
  const RunSpec run{.steps = 20,
                    .schedule = {.peak = 0.02, .warmup = 3},
                    .save_every = 6,
                    .eval_every = 5,
                    .patience = 3};
  const auto held_out = [](int64_t step) {
    return step == 5 ? 1.0 : 2.0 + static_cast<double>(step);
  };
  Training whole = Open();
  whole.Initialize(1);
  GivenData data;
  data.held_out = held_out;
  Record record;
  const RunResult expected =
      Run(whole, run, {.data = data, .observer = &record}).OrDie();
  CHECK(expected.last_step ==
        20);  // the third without a better one is the last
  CHECK(expected.history.since_best == 3);
  // A checkpoint is of the best values if its loss is the lowest, too.
  CHECK(data.evaluated == std::vector<int64_t>{5, 6, 10, 12, 15, 18, 20});

  const std::string path = EmptyFolder("stopped") + "/run.safetensors";
  std::vector<float> losses;
  for (const int64_t stop_after : {7, 4, 100}) {
    Training part = Open();
    RunCheckpoints checkpoints = RunCheckpoints::Claim(path).OrDie();
    const RunStart start = checkpoints.Begin(part, 1).OrDie();
    CHECK(start.done == static_cast<int64_t>(losses.size()));
    GivenData again;
    again.held_out = held_out;
    Record seen;
    seen.stop_after = stop_after;
    const RunResult result =
        Run(part, run,
            {.data = again, .observer = &seen, .saver = &checkpoints}, start)
            .OrDie();
    for (const float loss : seen.losses()) losses.push_back(loss);
    CHECK(result.stopped == (stop_after == 100 ? 0 : 15));
    REQUIRE(result.saved.ok());
    CHECK(result.last_step == static_cast<int64_t>(losses.size()));
    if (stop_after != 100) CHECK(std::ssize(seen.steps) == stop_after);
    if (stop_after != 100) continue;
    CHECK(result.history == expected.history);
    CHECK(Param(part) == Param(whole));
  }
  CHECK(losses == record.losses());
}

TEST_CASE("an evaluation that a stop interrupts is due when the run goes on") {
  const RunSpec run{
      .steps = 20, .schedule = {.peak = 0.01}, .eval_every = 5, .patience = 2};
  Training training = Open();
  training.Initialize(1);
  GivenData data;
  data.held_out = [](int64_t) { return 1.0; };
  data.last = 5;
  Run(training, run, {.data = data}, {.done = 5}).OrDie();
  CHECK(data.evaluated == std::vector<int64_t>{5, 10, 15});
  data.evaluated.clear();
  EvaluationHistory history;
  history.Add(5, 1.0);
  Run(training, run, {.data = data}, {.done = 5, .history = history}).OrDie();
  CHECK(data.evaluated == std::vector<int64_t>{10, 15});
}

TEST_CASE("a run ends early when evaluations no longer improve") {
  Training training = Open();
  training.Initialize(1);
  GivenData data;
  data.held_out = [](int64_t step) { return step == 4 ? 0.5 : 1.0; };
  const RunResult result = Run(training,
                               {.steps = 100,
                                .schedule = {.peak = 0.01},
                                .eval_every = 2,
                                .patience = 2},
                               {.data = data})
                               .OrDie();
  CHECK(result.last_step == 8);
  CHECK(result.stops_early);
  CHECK(result.history.best_step == 4);
  CHECK(result.evaluation->loss == 1.0);
}

TEST_CASE("the best checkpoint is that of the lowest loss") {
  const std::string path = EmptyFolder("best") + "/run.safetensors";
  Training training = Open();
  GivenData data;
  data.held_out = [](int64_t step) { return step == 4 ? 0.5 : 1.0; };
  RunCheckpoints checkpoints =
      RunCheckpoints::Claim(path, {.keep_best = true}, {{"data", "a"}}).OrDie();
  const RunStart start = checkpoints.Begin(training, 1).OrDie();
  Run(training, {.steps = 6, .schedule = {.peak = 0.01}, .eval_every = 2},
      {.data = data, .saver = &checkpoints}, start)
      .OrDie();
  CHECK(ReadCheckpointInfo(path).OrDie().step == 6);
  CHECK(ReadCheckpointInfo(BestPath(path)).OrDie().step == 4);
}

TEST_CASE("a run without a checkpoint begins with the values there are") {
  const std::string path = EmptyFolder("values") + "/run.safetensors";
  Training training = Open();
  training.Initialize(7);
  const std::vector<float> before = Param(training);
  RunCheckpoints checkpoints = RunCheckpoints::Claim(path).OrDie();
  CHECK(!checkpoints.Resume(training).OrDie());
  CHECK(Param(training) == before);
  GivenData data;
  Run(training, {.steps = 2, .schedule = {.peak = 0.01}},
      {.data = data, .saver = &checkpoints})
      .OrDie();
  const std::vector<float> after = Param(training);
  training.Initialize(7);
  CHECK(checkpoints.Resume(training).OrDie()->done == 2);
  CHECK(Param(training) == after);
}

TEST_CASE("the checkpoint of another run is refused") {
  const std::string path = EmptyFolder("other") + "/run.safetensors";
  Training training = Open();
  GivenData data;
  {
    RunCheckpoints first =
        RunCheckpoints::Claim(path, {}, {{"data", "a"}}).OrDie();
    const RunStart start = first.Begin(training, 1).OrDie();
    Run(training, {.steps = 1, .schedule = {.peak = 0.01}},
        {.data = data, .saver = &first}, start)
        .OrDie();
  }
  RunCheckpoints second =
      RunCheckpoints::Claim(path, {}, {{"data", "b"}}).OrDie();
  const Result<RunStart> start = second.Begin(training, 1);
  REQUIRE(!start.ok());
  CHECK(start.error().code == ErrorCode::kInvalidArgument);
  CHECK(start.error().message.find("with data a; this one has b") !=
        std::string::npos);
}

TEST_CASE("a loss that is not finite ends the run, or is skipped") {
  RunSpec run{.steps = 5, .schedule = {.peak = 0.01}};
  GivenData data;
  data.bad_step = 3;
  Training training = Open();
  training.Initialize(1);
  const Result<RunResult> ended = Run(training, run, {.data = data});
  REQUIRE(!ended.ok());
  CHECK(ended.error().code == ErrorCode::kNotFinite);
  CHECK(ended.error().message.find("at step 3,") != std::string::npos);

  run.skips_nonfinite = true;
  training.Initialize(1);
  Record record;
  const RunResult result =
      Run(training, run, {.data = data, .observer = &record}).OrDie();
  CHECK(result.figures.skipped == 1);
  CHECK(record.skipped == std::vector<int64_t>{3});
  CHECK(record.reason.find("step 3") != std::string::npos);
  CHECK(record.steps.size() == 4);
  for (const float value : Param(training)) CHECK(std::isfinite(value));
}

TEST_CASE(
    "a checkpoint that cannot be written ends a run unless the observer goes "
    "on") {
  RunSpec run{.steps = 4, .schedule = {.peak = 0.01}, .save_every = 2};
  GivenData data;
  FullDisk disk;
  Training training = Open();
  training.Initialize(1);
  const Result<RunResult> ended =
      Run(training, run, {.data = data, .saver = &disk});
  REQUIRE(!ended.ok());
  CHECK(ended.error().message == "no room for step 2");

  training.Initialize(1);
  Record record;
  record.goes_on = true;
  const RunResult result =
      Run(training, run, {.data = data, .observer = &record, .saver = &disk})
          .OrDie();
  CHECK(record.unsaved == std::vector<std::string>{"no room for step 2"});
  CHECK(result.last_step == 4);
  REQUIRE(!result.saved.ok());
  CHECK(result.saved.error().message == "no room for step 4");
}

TEST_CASE("what a run cannot do is refused before its first step") {
  Training training = Open();
  training.Initialize(1);
  GivenData data;
  const auto refusal = [&](const RunSpec& run, const RunStart& start = {}) {
    const Result<RunResult> result = Run(training, run, {.data = data}, start);
    return result.ok() ? std::string() : result.error().message;
  };
  CHECK(refusal({.steps = 5, .eval_every = 2}) ==
        "[run] nothing is held out to evaluate on every 2 steps");
  CHECK(refusal({.steps = 5, .patience = 2}).find("eval_every 0") !=
        std::string::npos);
  CHECK(refusal({.steps = 5}, {.done = 6}) ==
        "[run] steps 6 to 5 of a run of 5");
  CHECK(refusal({.steps = 5, .stop_at = 7}) ==
        "[run] steps 0 to 7 of a run of 5");
  CHECK(training.step().started() == 0);
}

}  // namespace
}  // namespace stowage
