#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/rank_step.h"
#include "autodiff/train_step.h"
#include "cpu/cpu_backend.h"
#include "formats/array.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/support/files.h"
#include "train/run.h"
#include "train/run_checkpoints.h"
#include "train/state_backup.h"
#include "train/training.h"

namespace stowage {
namespace {

constexpr int64_t kBatch = 4, kFeatures = 3;
constexpr double kDecay = 0.75;

ModelFn NetIn(DType dtype) {
  return [dtype](int64_t batch) {
    GraphBuilder g("net");
    const Value x = g.Input("x", dtype, {batch, kFeatures});
    const Value y = g.Input("y", dtype, {batch, 2});
    const Value w = g.Param("w", dtype, {kFeatures, 2}, Init::Normal(0.5));
    const Value b = g.Param("b", dtype, {2});
    const Value error = Sub(Add(MatMul(x, w), BroadcastTo(b, {batch, 2})), y);
    g.Output("loss", Cast(ReduceMean(Square(error)), DType::kF32));
    return g.Finish();
  };
}

Training Open(const TrainOptions& options, DType dtype = DType::kF32,
              int64_t micro_batches = 1) {
  static const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec{
      .model = NetIn(dtype), .batch = kBatch, .training = options};
  spec.optimizations = NoOptimizations();
  spec.optimizations->micro_batches = {micro_batches};
  Training training = Train(std::move(spec), *cpu).OrDie();
  training.Initialize(3);
  return training;
}

std::vector<double> Numbers(int64_t size, int64_t step) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < size; ++i) {
    numbers.push_back(
        std::sin(static_cast<double>(step) * 1.7 + static_cast<double>(i)));
  }
  return numbers;
}

Array ArrayOfInput(const Runner& step, std::string_view name,
                   const std::vector<double>& numbers) {
  const TensorType& type = step.graph().value(*step.graph().Find(name)).type;
  return ArrayOf(type.dtype, type.shape, numbers);
}

Status WriteBatch(Runner& step, int64_t number, double scale = 1) {
  std::vector<double> x = Numbers(kBatch * kFeatures, number);
  for (double& each : x) each *= scale;
  const Array arrays[] = {
      ArrayOfInput(step, "x", x),
      ArrayOfInput(step, "y", Numbers(kBatch * 2, -number))};
  STOWAGE_RETURN_IF_ERROR(
      step.WriteBytes("x", arrays[0].type.dtype, arrays[0].data()));
  return step.WriteBytes("y", arrays[1].type.dtype, arrays[1].data());
}

void TakeStep(Training& training, int64_t number, double scale = 1) {
  Runner& step = training.step();
  WriteBatch(step, number, scale).OrDie();
  StepInputs(step.graph())
      .Write(step, {.step = number, .lr = 0.05, .seed = 1})
      .OrDie();
  REQUIRE(step.Step() == StepCode::kOk);
}

std::vector<double> Values(Training& training, const std::string& name) {
  const Runner& step = training.step();
  const TensorType& type = step.graph().value(*step.graph().Find(name)).type;
  Array array{type, std::string(static_cast<size_t>(type.bytes()), '\0')};
  step.ReadBytes(name, type.dtype, array.data()).OrDie();
  return RealsOf(array);
}

int64_t Updates(Training& training) {
  std::vector<int64_t> updates(1);
  training.step().Read("ema.updates", &updates).OrDie();
  return updates[0];
}

// The averages of the params behind each step, by their definition: the first is a copy.
class Expected {
 public:
  void Add(const std::vector<double>& params) {
    if (average_.empty()) average_ = params;
    for (size_t i = 0; i < params.size(); ++i) {
      average_[i] = kDecay * average_[i] + (1 - kDecay) * params[i];
    }
  }
  void Check(const std::vector<double>& average, double tolerance) const {
    REQUIRE(average.size() == average_.size());
    for (size_t i = 0; i < average.size(); ++i) {
      CHECK(average[i] == doctest::Approx(average_[i]).epsilon(tolerance));
    }
  }

 private:
  std::vector<double> average_;
};

TEST_CASE("averages follow the params, and begin as those of the first step") {
  struct Case {
    const char* what;
    TrainOptions options;
    DType dtype = DType::kF32;
    int64_t micro_batches = 1;
    double tolerance = 1e-6;
  };
  const Case cases[] = {
      {"sgd", {.optimizer = Sgd{}}},
      {"adamw", {.optimizer = AdamW{}}},
      {"clipped", {.optimizer = AdamW{}, .clip_norm = 0.1}},
      {"two micro-batches", {.optimizer = AdamW{}}, DType::kF32, 2},
      {"a loop of micro-batches", {.optimizer = AdamW{}}, DType::kF32, 4},
      {"rule", {.optimizer = Lion{}}},
      {"muon", {.optimizer = Muon{}}},
      {"scaled", {.optimizer = AdamW{}, .loss_scaling = LossScaling{}}},
      {"f64", {.optimizer = AdamW{}}, DType::kF64, 1, 1e-14},
      {"bf16", {.optimizer = AdamW{}}, DType::kBF16},
      {"f16", {.optimizer = Adam{}}, DType::kF16}};
  for (const Case& each : cases) {
    CAPTURE(each.what);
    TrainOptions options = each.options;
    options.ema = kDecay;
    Training training = Open(options, each.dtype, each.micro_batches);
    CHECK(KeepsAverages(training.step().graph()));
    Training plain = Open(each.options, each.dtype, each.micro_batches);
    CHECK(!KeepsAverages(plain.step().graph()));
    Expected w, b;
    for (int64_t step = 1; step <= 5; ++step) {
      TakeStep(training, step);
      TakeStep(plain, step);
      // The params know nothing of it.
      CHECK(Values(training, "w") == Values(plain, "w"));
      w.Add(Values(training, "w"));
      b.Add(Values(training, "b"));
      w.Check(Values(training, "w.ema"), each.tolerance);
      b.Check(Values(training, "b.ema"), each.tolerance);
      if (step == 1) CHECK(Values(training, "w.ema") == Values(training, "w"));
      CHECK(Updates(training) == step);
    }
    const Graph& graph = training.step().graph();
    CHECK(graph.value(*graph.Find("w.ema")).type.dtype ==
          (each.dtype == DType::kF64 ? DType::kF64 : DType::kF32));
  }
}

TEST_CASE("a param that is not trained has no average") {
  Training training = Open({.optimizer = Sgd{},
                            .ema = kDecay,
                            .groups = {{.pattern = "b", .frozen = true}}});
  CHECK(training.step().graph().Find("w.ema"));
  CHECK(!training.step().graph().Find("b.ema"));
}

TEST_CASE("a skipped step moves no average, and the next is the first") {
  Training training = Open(
      {.optimizer = AdamW{}, .loss_scaling = LossScaling{}, .ema = kDecay});
  Expected expected;
  for (int64_t step = 1; step <= 5; ++step) {
    const bool is_bad = step == 1 || step == 3;
    const std::vector<double> before = Values(training, "w.ema");
    TakeStep(training, step, is_bad ? 1e30 : 1);
    CHECK(training.step().ReadScalar("update_skipped").OrDie() ==
          (is_bad ? 1 : 0));
    if (is_bad) {
      CHECK(Values(training, "w.ema") == before);
      continue;
    }
    expected.Add(Values(training, "w"));
    expected.Check(Values(training, "w.ema"), 1e-6);
  }
  CHECK(Updates(training) == 3);
}

TEST_CASE("params have the values of their averages until they are restored") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Training training = Open({.optimizer = AdamW{}, .ema = kDecay}, dtype);
    Runner& step = training.step();
    {  // There are none yet.
      const std::vector<double> initial = Values(training, "w");
      AveragedWeights averaged = AveragedWeights::Use(step).OrDie();
      CHECK(Values(training, "w") == initial);
    }
    for (int64_t i = 1; i <= 4; ++i) TakeStep(training, i);
    const std::vector<double> own = Values(training, "w");
    const std::vector<double> average = Values(training, "w.ema");
    REQUIRE(own != average);
    {
      AveragedWeights averaged = AveragedWeights::Use(step).OrDie();
      const std::vector<double> used = Values(training, "w");
      CHECK(used != own);
      for (size_t i = 0; i < used.size(); ++i) {
        CHECK(used[i] ==
              doctest::Approx(average[i])
                  .epsilon(dtype == DType::kF32 ? 1e-12 : 1.0 / 256));
      }
      AveragedWeights moved = std::move(averaged);
      REQUIRE(moved.Restore().ok());
      CHECK(Values(training, "w") == own);
    }
    { const AveragedWeights until = AveragedWeights::Use(step).OrDie(); }
    CHECK(Values(training, "w") == own);
    CHECK(Values(training, "w.ema") == average);
  }
}

// Evaluates nothing, and looks at a param.
class Looking : public RunData {
 public:
  Status WriteBatch(Runner& step, int64_t number) override {
    return stowage::WriteBatch(step, number);
  }
  bool has_held_out() const override { return true; }
  Result<std::optional<Evaluation>> Evaluate(Training& training) override {
    seen.push_back(Values(training, "w"));
    return std::optional(Evaluation{.loss = 1});
  }
  std::vector<std::vector<double>> seen;
};

TEST_CASE("a run evaluates with the averages, and resumes them") {
  const TrainOptions options{.optimizer = AdamW{}, .ema = kDecay};
  const RunSpec run{.steps = 6, .schedule = {.peak = 0.05}, .eval_every = 3};
  Training whole = Open(options);
  Looking data;
  Run(whole, run, {.data = data}).OrDie();
  REQUIRE(data.seen.size() == 2);
  CHECK(data.seen[1] == Values(whole, "w.ema"));
  CHECK(data.seen[1] != Values(whole, "w"));

  const std::string path =
      testing::EmptyFolder("averages") + "/run.safetensors";
  for (const int64_t stop_at : {4, 6}) {
    Training part = Open(options);
    RunCheckpoints checkpoints = RunCheckpoints::Claim(path).OrDie();
    const RunStart start = checkpoints.Begin(part, 3).OrDie();
    RunSpec some = run;
    some.stop_at = stop_at;
    Looking again;
    Run(part, some, {.data = again, .saver = &checkpoints}, start).OrDie();
    if (stop_at < 6) continue;
    CHECK(Values(part, "w") == Values(whole, "w"));
    CHECK(Values(part, "w.ema") == Values(whole, "w.ema"));
    CHECK(Updates(part) == 6);
  }
}

std::string RefusalOf(const TrainOptions& options, const Graph& graph) {
  const Result<Graph> step = BuildTrainStep(graph, "loss", options);
  return step.ok() ? "" : step.error().message;
}

TEST_CASE("what averages cannot be kept of is refused") {
  const Graph net = NetIn(DType::kF32)(kBatch).OrDie();
  for (const double decay :
       {0.0, 1.0, -0.5, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(RefusalOf({.ema = decay}, net)
              .find("expected a decay above 0 and below 1") !=
          std::string::npos);
  }
  GraphBuilder g("taken");
  const Value w = g.Param("w", DType::kF32, {2});
  g.State("ema.updates", DType::kI64, {});
  g.Output("loss", ReduceMean(Square(w)));
  CHECK(
      RefusalOf({.ema = 0.9}, g.Finish().OrDie()) ==
      "[autodiff] graph \"taken\" has a value \"ema.updates\"; the step needs "
      "this name for its averages");
  const Graph whole = NetIn(DType::kF32)(2 * kBatch).OrDie();
  const Graph* const parts[] = {&net};
  const Result<MicroBatchedStep> sharded =
      BuildRankStep(whole, net, parts, "loss",
                    {.ranks = 2, .shard = Sharding::kStates}, {.ema = 0.9});
  REQUIRE(!sharded.ok());
  CHECK(sharded.error().code == ErrorCode::kUnsupported);
  CHECK(sharded.error().message.find("or no ema") != std::string::npos);
}

}  // namespace
}  // namespace stowage
