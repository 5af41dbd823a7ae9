#include "tools/task.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/result.h"
#include "base/strings.h"
#include "data/digits_data.h"
#include "data/image_data.h"
#include "data/text_data.h"
#include "ir/tensor_type.h"
#include "text/text.h"
#include "tools/command.h"
#include "tools/token_task.h"
#include "train/step_builder.h"

namespace stowage::tools {
namespace {

BatchPart PartOf(const TaskShare& share, int64_t batch) {
  return PartOfRank(batch, share.ranks, share.rank);
}

class TextTask : public Task {
 public:
  TextTask(TextData data, int64_t batch, int64_t seq, uint64_t seed,
           int64_t evaluation_batches, const TaskShare& share)
      : Task(share),
        data_(std::move(data)),
        part_(PartOf(share, batch)),
        batch_(batch),
        seq_(seq),
        seed_(seed),
        evaluation_batches_(evaluation_batches),
        tokens_(static_cast<size_t>(batch * seq)),
        targets_(tokens_.size()) {}

  Status WriteBatch(Runner& train, int64_t step) override {
    SampleTextBatch(data_.train(), batch_, seq_, seed_,
                    static_cast<uint64_t>(step), tokens_, targets_);
    return Write(train, Rows(part_, tokens_), Rows(part_, targets_));
  }

  int64_t EvaluationBatch(int64_t most) const override { return most; }

  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                              WorkProgress& progress) override {
    const int64_t batches = std::min(
        CountTextBatches(data_.held_out(), batch, seq_), evaluation_batches_);
    const auto size = static_cast<size_t>(batch * seq_);
    const std::span tokens = std::span(tokens_).first(size);
    const std::span targets = std::span(targets_).first(size);
    return MeanLoss(
        share_, evaluate, batches, progress,
        [&](int64_t i) {
          ReadTextBatch(data_.held_out(), batch, seq_, i, tokens, targets);
          return Write(evaluate, tokens, targets);
        },
        [&] { return CountStep(evaluate); });
  }

  int64_t train_examples() const override {
    return CountTextBatches(data_.train(), /*batch=*/1, seq_);
  }
  int64_t tokens_per_step(size_t) const override { return batch_ * seq_; }
  std::string_view token_name() const override { return "tok"; }

 private:
  std::span<const int32_t> Rows(const BatchPart& part,
                                std::span<const int32_t> rows) const {
    return rows.subspan(static_cast<size_t>(part.first * seq_),
                        static_cast<size_t>(part.count * seq_));
  }

  static Status Write(Runner& runner, std::span<const int32_t> tokens,
                      std::span<const int32_t> targets) {
    STOWAGE_RETURN_IF_ERROR(runner.Write("tokens", tokens));
    return runner.Write("targets", targets);
  }

  const TextData data_;
  const BatchPart part_;
  const int64_t batch_, seq_;
  const uint64_t seed_;
  const int64_t evaluation_batches_;
  std::vector<int32_t> tokens_, targets_;
};

// Counts the correct predictions of a classifier.
class ClassifierScore {
 public:
  explicit ClassifierScore(int64_t labels)
      : predictions_(static_cast<size_t>(labels)) {}

  // Takes a step, after its inputs are written; returns its loss and correct predictions.
  Result<Score> Step(Runner& evaluate, std::span<const int32_t> labels) {
    STOWAGE_RETURN_IF_ERROR(TakeStep(evaluate));
    STOWAGE_ASSIGN_OR_RETURN(const float loss, evaluate.ReadScalar("loss"));
    STOWAGE_RETURN_IF_ERROR(evaluate.Read("predictions", &predictions_));
    int64_t right = 0;
    for (size_t i = 0; i < predictions_.size(); ++i) {
      right += predictions_[i] == labels[i];
    }
    return Score{loss, static_cast<double>(right)};
  }

  Evaluation Mean(std::span<const Score> scores) const {
    double sum = 0, right = 0;
    for (const Score& score : scores) {
      sum += score[0];
      right += score[1];
    }
    const auto batches = static_cast<double>(scores.size());
    return {.loss = sum / batches,
            .accuracy =
                right / (batches * static_cast<double>(predictions_.size()))};
  }

 private:
  std::vector<int32_t> predictions_;
};

class DigitsTask : public Task {
 public:
  DigitsTask(DigitsData data, int64_t batch, uint64_t seed,
             const TaskShare& share)
      : Task(share),
        data_(std::move(data)),
        part_(PartOf(share, batch)),
        batch_(batch),
        seed_(seed),
        x_(static_cast<size_t>(batch * kDigitPixels)),
        y_(static_cast<size_t>(batch)) {}

  Status WriteBatch(Runner& train, int64_t step) override {
    SampleDigits(data_.train, batch_, seed_, static_cast<uint64_t>(step), x_,
                 y_);
    return Write(train, part_);
  }

  int64_t EvaluationBatch(int64_t most) const override {
    return DividingBatch(data_.held_out.size(), most);
  }

  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                              WorkProgress& progress) override {
    const int64_t size = data_.held_out.size();
    const std::span y = std::span(y_).first(static_cast<size_t>(batch));
    ClassifierScore score(batch);
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<Score> scores,
        ScoreAll(
            share_, size / batch, progress,
            [&](int64_t i) -> Result<Score> {
              ReadDigits(data_.held_out, batch, i * batch,
                         std::span(x_).first(
                             static_cast<size_t>(batch * kDigitPixels)),
                         y);
              STOWAGE_RETURN_IF_ERROR(
                  Write(evaluate, {.first = 0, .count = batch}));
              return score.Step(evaluate, y);
            },
            [&] { return CountStep(evaluate); }));
    return score.Mean(scores);
  }

  int64_t train_examples() const override { return data_.train.size(); }
  int64_t tokens_per_step(size_t) const override { return batch_; }
  std::string_view token_name() const override { return "examples"; }

 private:
  Status Write(Runner& runner, const BatchPart& part) {
    const auto first = static_cast<size_t>(part.first);
    const auto count = static_cast<size_t>(part.count);
    STOWAGE_RETURN_IF_ERROR(
        runner.Write("x", std::span<const float>(x_).subspan(
                              first * kDigitPixels, count * kDigitPixels)));
    return runner.Write("y",
                        std::span<const int32_t>(y_).subspan(first, count));
  }

  const DigitsData data_;
  const BatchPart part_;
  const int64_t batch_;
  const uint64_t seed_;
  std::vector<float> x_;
  std::vector<int32_t> y_;
};

class ImageTask : public Task {
 public:
  ImageTask(std::shared_ptr<const ImageData> data, int64_t batch, uint64_t seed,
            const Augmentation& augmentation, const TaskShare& share)
      : Task(share),
        data_(std::move(data)),
        part_(PartOf(share, batch)),
        batch_(batch),
        x_(static_cast<size_t>(batch * data_->shape.size())),
        y_(static_cast<size_t>(batch * data_->labels)),
        reader_(*data_,
                {.batch = batch, .seed = seed, .augmentation = augmentation}) {}

  Status WriteBatch(Runner& train, int64_t step) override {
    STOWAGE_ASSIGN_OR_RETURN(const ImageBatch batch, reader_.Get(step));
    const auto rows = [this](auto values) {
      const size_t size = values.size() / static_cast<size_t>(batch_);
      return values.subspan(static_cast<size_t>(part_.first) * size,
                            static_cast<size_t>(part_.count) * size);
    };
    return Write(train, rows(batch.x), rows(batch.y));
  }

  int64_t EvaluationBatch(int64_t most) const override {
    return DividingBatch(data_->held_out.size(), most);
  }

  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                              WorkProgress& progress) override {
    const int64_t size = data_->held_out.size();
    const std::span x =
        std::span(x_).first(static_cast<size_t>(batch * data_->shape.size()));
    const std::span y =
        std::span(y_).first(static_cast<size_t>(batch * data_->labels));
    ClassifierScore score(std::ssize(y));
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<Score> scores,
        ScoreAll(
            share_, size / batch, progress,
            [&](int64_t i) -> Result<Score> {
              STOWAGE_RETURN_IF_ERROR(ReadImages(*data_, i * batch, x, y));
              STOWAGE_RETURN_IF_ERROR(Write(evaluate, x, y));
              return score.Step(evaluate, y);
            },
            [&] { return CountStep(evaluate); }));
    return score.Mean(scores);
  }

  int64_t train_examples() const override { return data_->train.size(); }
  int64_t tokens_per_step(size_t) const override { return batch_; }
  std::string_view token_name() const override { return "examples"; }

 private:
  static Status Write(Runner& runner, std::span<const float> x,
                      std::span<const int32_t> y) {
    STOWAGE_RETURN_IF_ERROR(runner.Write("x", x));
    return runner.Write("y", y);
  }

  const std::shared_ptr<const ImageData> data_;
  const BatchPart part_;
  const int64_t batch_;
  std::vector<float> x_;  // of evaluations
  std::vector<int32_t> y_;
  ImageReader reader_;
};

// Checks that there is memory for a batch beside the arena.
Status CheckBatch(int64_t batch, Bytes example) {
  return CheckMemory(
      StrCat("a batch of ", batch, " examples"),
      CheckedMul(batch, example).value_or(std::numeric_limits<Bytes>::max()));
}

// The text as tokens if the spec has a tokenizer, else as characters.
Result<TextData> LoadText(const StepSpec& spec, const std::string& path,
                          int64_t seq, const TaskShare& share) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadTrainingText(path));
  if (spec.tokenizer == nullptr) {
    STOWAGE_ASSIGN_OR_RETURN(TextData data,
                             TextData::FromText(text, path, seq));
    if (data.replaced() > 0 && share.rank == 0) {
      std::cerr << StrCat("[data] ", data.replaced(), " of ",
                          data.tokens().size(), " characters of ", Quoted(path),
                          " are beyond ASCII or controls, and read as \"?\"; "
                          "--tokenizer reads any text")
                << std::endl;
    }
    return data;
  }
  int64_t without_token = 0;
  STOWAGE_ASSIGN_OR_RETURN(
      std::vector<int32_t> tokens,
      spec.tokenizer->Encode(text, {.special = false,
                                    .add_prefix = false,
                                    .without_token = &without_token}));
  if (share.rank == 0)
    ReportLostBytes(*spec.tokenizer, without_token, Quoted(path));
  return TextData::FromTokens(std::move(tokens), path, seq);
}

}  // namespace

Status Task::CountStep(const Runner& evaluate) {
  if (!counts_) return {};
  constexpr std::array<std::string_view, 3> kNames = {
      "predictions", "label_classes", "label_ranks"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    const ValueInfo& value =
        evaluate.graph().value(*evaluate.graph().Find(kNames[i]));
    outputs_[i].resize(static_cast<size_t>(value.type.shape.num_elements()));
    STOWAGE_RETURN_IF_ERROR(evaluate.Read(kNames[i], &outputs_[i]));
  }
  counts_->Add(outputs_[0], outputs_[1], outputs_[2]);
  return {};
}

int64_t DividingBatch(int64_t size, int64_t limit) {
  int64_t batch = std::min(size, limit);
  while (size % batch != 0) --batch;
  return batch;
}

void ReportLostBytes(const Tokenizer& tokenizer, int64_t without_token,
                     const std::string& what) {
  if (without_token == 0) return;
  std::cerr << WithoutControls(StrCat(
                   "[data] the tokenizer has no token for ", without_token,
                   " bytes of ", what, ", which are ",
                   tokenizer.unknown() ? StrCat("read as its unknown token, ",
                                                *tokenizer.unknown())
                                       : std::string("left out")))
            << std::endl;
}

Result<std::string> ReadTrainingText(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path));
  STOWAGE_RETURN_IF_ERROR(CheckTrainingText(text, path));
  return text;
}

Status TakeStep(Runner& runner) {
  const StepCode code = runner.Step();
  if (code == StepCode::kOk) return {};
  return runner.Explain(code);
}

Result<Evaluation> MeanLoss(const TaskShare& share, Runner& evaluate,
                            int64_t batches, WorkProgress& progress,
                            const std::function<Status(int64_t)>& write,
                            const std::function<Status()>& count) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Score> scores,
                           ScoreAll(
                               share, batches, progress,
                               [&](int64_t i) -> Result<Score> {
                                 STOWAGE_RETURN_IF_ERROR(write(i));
                                 STOWAGE_RETURN_IF_ERROR(TakeStep(evaluate));
                                 STOWAGE_ASSIGN_OR_RETURN(
                                     const float loss,
                                     evaluate.ReadScalar("loss"));
                                 return Score{loss, 0};
                               },
                               count));
  double sum = 0;
  for (const Score& score : scores) sum += score[0];
  return Evaluation{.loss = sum / static_cast<double>(batches),
                    .accuracy = std::nullopt};
}

std::unique_ptr<Task> MakeTextTask(TextData data, int64_t batch, int64_t seq,
                                   uint64_t seed, int64_t evaluation_batches,
                                   const TaskShare& share) {
  return std::make_unique<TextTask>(std::move(data), batch, seq, seed,
                                    evaluation_batches, share);
}

Result<std::unique_ptr<Task>> LoadTask(const StepSpec& spec,
                                       const std::string& path, uint64_t seed,
                                       const TaskShare& share) {
  const int64_t batch = *spec.options.batch;
  switch (spec.info.data) {
    case ModelData::kText: {
      const int64_t seq = *spec.options.seq;
      STOWAGE_RETURN_IF_ERROR(CheckBatch(batch, 2 * seq * SizeOf(DType::kI32)));
      if (TokenShards::Reads(path)) {
        STOWAGE_ASSIGN_OR_RETURN(
            TokenShards shards,
            TokenShards::Open(
                path, spec.options.vocabulary.value_or(spec.info.vocabulary)));
        return MakeShardTask(
            std::make_shared<const TokenShards>(std::move(shards)), batch, seq,
            seed, kEvaluationBatches, share);
      }
      STOWAGE_ASSIGN_OR_RETURN(TextData text, LoadText(spec, path, seq, share));
      return MakeTextTask(std::move(text), batch, seq, seed, kEvaluationBatches,
                          share);
    }
    case ModelData::kImages:
    case ModelData::kPixels:
      break;
  }
  if (spec.images != nullptr) {
    // One batch in use, two prefetched, and one of evaluations.
    STOWAGE_RETURN_IF_ERROR(
        CheckBatch(batch, 4 * (spec.images->shape.size() * SizeOf(DType::kF32) +
                               spec.images->labels * SizeOf(DType::kI32))));
    return std::unique_ptr<Task>(std::make_unique<ImageTask>(
        spec.images, batch, seed, spec.info.augmentation, share));
  }
  if (std::error_code ignored; !std::filesystem::exists(path, ignored)) {
    return ReadFile(path).error();
  }
  if (spec.info.data == ModelData::kPixels) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[data] ", Quoted(path), " is no .npz, and ", spec.info.name,
               " learns a label for each pixel; give an .npz with "
               "\"x\" (N, C, H, W) and \"y\" (N, H, W)")};
  }
  if (spec.info.images != kDigitImages) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[data] ", Quoted(path),
                        " is read as rows of digits, "
                        "and ",
                        spec.info.name,
                        " does not look at 8 x 8 "
                        "digits; give a folder or an .npz")};
  }
  STOWAGE_RETURN_IF_ERROR(CheckBatch(
      batch, kDigitPixels * SizeOf(DType::kF32) + SizeOf(DType::kI32)));
  STOWAGE_ASSIGN_OR_RETURN(DigitsData digits, DigitsData::Load(path, seed));
  return std::unique_ptr<Task>(
      std::make_unique<DigitsTask>(std::move(digits), batch, seed, share));
}

}  // namespace stowage::tools
