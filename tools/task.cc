#include "tools/task.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/strings.h"
#include "ir/dtype.h"
#include "nn/digits_data.h"
#include "nn/text_data.h"

namespace stowage::tools {
namespace {

Status Step(Runner& runner) {
  const StepCode code = runner.Step();
  if (code == StepCode::kOk) return {};
  return runner.Explain(code);
}

// Enough to judge by; small batches of a large model would take minutes.
constexpr int64_t kMaxEvaluationBatches = 100;

class TextTask : public Task {
 public:
  TextTask(TextData data, int64_t batch, int64_t seq, uint64_t seed)
      : data_(std::move(data)),
        batch_(batch),
        seq_(seq),
        seed_(seed),
        tokens_(static_cast<size_t>(batch * seq)),
        targets_(tokens_.size()) {}

  Status WriteBatch(Runner& train, int64_t step) override {
    SampleTextBatch(data_.train(), batch_, seq_, seed_,
                    static_cast<uint64_t>(step), tokens_, targets_);
    return Write(train, tokens_, targets_);
  }

  int64_t EvaluationBatch(int64_t most) const override { return most; }

  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch) override {
    const int64_t batches = std::min(
        CountTextBatches(data_.held_out(), batch, seq_), kMaxEvaluationBatches);
    const auto size = static_cast<size_t>(batch * seq_);
    const std::span tokens = std::span(tokens_).first(size);
    const std::span targets = std::span(targets_).first(size);
    double sum = 0;
    for (int64_t i = 0; i < batches; ++i) {
      ReadTextBatch(data_.held_out(), batch, seq_, i, tokens, targets);
      STOWAGE_RETURN_IF_ERROR(Write(evaluate, tokens, targets));
      STOWAGE_RETURN_IF_ERROR(Step(evaluate));
      STOWAGE_ASSIGN_OR_RETURN(const float loss, evaluate.ReadScalar("loss"));
      sum += loss;
    }
    return Evaluation{.loss = sum / static_cast<double>(batches),
                      .accuracy = std::nullopt};
  }

  int64_t tokens_per_step() const override { return batch_ * seq_; }
  std::string_view token_name() const override { return "tok"; }

 private:
  static Status Write(Runner& runner, std::span<const int32_t> tokens,
                      std::span<const int32_t> targets) {
    STOWAGE_RETURN_IF_ERROR(runner.Write("tokens", tokens));
    return runner.Write("targets", targets);
  }

  const TextData data_;
  const int64_t batch_, seq_;
  const uint64_t seed_;
  std::vector<int32_t> tokens_, targets_;
};

// The largest batch up to `limit` that divides `size`, so that an evaluation
// takes every example once.
int64_t DividingBatch(int64_t size, int64_t limit) {
  int64_t batch = std::min(size, limit);
  while (size % batch != 0) --batch;
  return batch;
}

class DigitsTask : public Task {
 public:
  DigitsTask(DigitsData data, int64_t batch, uint64_t seed)
      : data_(std::move(data)),
        batch_(batch),
        seed_(seed),
        x_(static_cast<size_t>(batch * kDigitPixels)),
        y_(static_cast<size_t>(batch)) {}

  Status WriteBatch(Runner& train, int64_t step) override {
    SampleDigits(data_.train, batch_, seed_, static_cast<uint64_t>(step), x_,
                 y_);
    return Write(train, batch_);
  }

  int64_t EvaluationBatch(int64_t most) const override {
    return DividingBatch(data_.held_out.size(), most);
  }

  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch) override {
    const int64_t size = data_.held_out.size();
    std::vector<int32_t> predictions(static_cast<size_t>(batch));
    double sum = 0;
    int64_t right = 0;
    for (int64_t first = 0; first < size; first += batch) {
      ReadDigits(data_.held_out, batch, first,
                 std::span(x_).first(static_cast<size_t>(batch * kDigitPixels)),
                 std::span(y_).first(static_cast<size_t>(batch)));
      STOWAGE_RETURN_IF_ERROR(Write(evaluate, batch));
      STOWAGE_RETURN_IF_ERROR(Step(evaluate));
      STOWAGE_ASSIGN_OR_RETURN(const float loss, evaluate.ReadScalar("loss"));
      STOWAGE_RETURN_IF_ERROR(evaluate.Read("predictions", &predictions));
      sum += loss;
      for (size_t i = 0; i < predictions.size(); ++i) {
        right += predictions[i] == y_[i];
      }
    }
    return Evaluation{
        .loss = sum / static_cast<double>(size / batch),
        .accuracy = static_cast<double>(right) / static_cast<double>(size)};
  }

  int64_t tokens_per_step() const override { return batch_; }
  std::string_view token_name() const override { return "examples"; }

 private:
  Status Write(Runner& runner, int64_t batch) {
    STOWAGE_RETURN_IF_ERROR(
        runner.Write("x", std::span<const float>(x_).first(
                              static_cast<size_t>(batch * kDigitPixels))));
    return runner.Write(
        "y", std::span<const int32_t>(y_).first(static_cast<size_t>(batch)));
  }

  const DigitsData data_;
  const int64_t batch_;
  const uint64_t seed_;
  std::vector<float> x_;
  std::vector<int32_t> y_;
};

// That a batch, of examples of so many bytes, can be held beside the arena.
Status CheckBatch(int64_t batch, Bytes example) {
  return CheckMemory(
      StrCat("a batch of ", batch, " examples"),
      CheckedMul(batch, example).value_or(std::numeric_limits<Bytes>::max()));
}

}  // namespace

Result<std::unique_ptr<Task>> LoadTask(const StepSpec& spec,
                                       const std::string& path, uint64_t seed) {
  const int64_t batch = *spec.options.batch;
  switch (spec.info.data) {
    case ModelData::kText: {
      const int64_t seq = *spec.options.seq;
      STOWAGE_RETURN_IF_ERROR(CheckBatch(batch, 2 * seq * SizeOf(DType::kI32)));
      STOWAGE_ASSIGN_OR_RETURN(TextData text, TextData::Load(path, seq));
      return std::unique_ptr<Task>(
          std::make_unique<TextTask>(std::move(text), batch, seq, seed));
    }
    case ModelData::kDigits:
      break;
  }
  STOWAGE_RETURN_IF_ERROR(CheckBatch(
      batch, kDigitPixels * SizeOf(DType::kF32) + SizeOf(DType::kI32)));
  STOWAGE_ASSIGN_OR_RETURN(DigitsData digits, DigitsData::Load(path, seed));
  return std::unique_ptr<Task>(
      std::make_unique<DigitsTask>(std::move(digits), batch, seed));
}

}  // namespace stowage::tools
