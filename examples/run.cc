#include "stowage/stowage.h"
using namespace stowage;

ModelFn Mlp(ModelPurpose use) {
  return [=](int64_t n) { return BuildModel("mlp", use, {.batch = n}); };
}
class Digits : public RunData {
 public:
  Status WriteBatch(Runner& step, int64_t number) override {
    SampleDigits(data_.train, 64, /*seed=*/1, number, x_, y_);
    STOWAGE_RETURN_IF_ERROR(step.Write("x", x_));
    return step.Write("y", y_);
  }
  bool has_held_out() const override { return true; }
  Result<std::optional<Evaluation>> Evaluate(Training& training) override {
    Runner& test = *training.Find("evaluate");
    STOWAGE_RETURN_IF_ERROR(test.Write("x", data_.held_out.x));
    STOWAGE_RETURN_IF_ERROR(test.Write("y", data_.held_out.y));
    if (const auto code = test.Step(); code != StepCode::kOk) {
      return test.Explain(code);
    }
    return std::optional(Evaluation{test.ReadScalar("loss").OrDie()});
  }
  DigitsData data_ = DigitsData::Load("examples/data/digits.csv", 1).OrDie();
  std::vector<float> x_ = std::vector<float>(64 * 64);
  std::vector<int32_t> y_ = std::vector<int32_t>(64);
};
int main() {  // called again, it goes on from digits.safetensors
  Digits data;
  TrainingSpec spec{.model = Mlp(ModelPurpose::kTrain), .batch = 64};
  spec.training = {.optimizer = AdamW{}, .clip_norm = 1.0};
  spec.programs = {{"evaluate", Mlp(ModelPurpose::kEvaluate), 359}};
  spec.budget = 1 << 20;
  Training training = Train(spec).OrDie();
  auto saver = RunCheckpoints::Claim("digits.safetensors").OrDie();
  const RunStart start = saver.Begin(training, /*seed=*/1).OrDie();
  RunSpec run{.steps = 2000, .schedule = {.peak = 2e-3, .warmup = 50}};
  run.eval_every = run.save_every = 200, run.patience = 3;
  Run(training, run, {data, nullptr, &saver}, start).OrDie();
}
