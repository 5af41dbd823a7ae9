#include "tools/token_task.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "autodiff/batch_analysis.h"
#include "base/result.h"
#include "base/strings.h"
#include "data/batching.h"
#include "data/text_data.h"
#include "data/token_shards.h"
#include "text/text.h"
#include "tools/progress.h"
#include "tools/tuning.h"
#include "train/fine_tuning.h"
#include "train/generation.h"
#include "train/step_builder.h"

namespace stowage::tools {

namespace {

// A sequence for each example.
std::vector<std::vector<size_t>> Apart(const std::vector<size_t>& part) {
  std::vector<std::vector<size_t>> sequences;
  for (const size_t example : part) sequences.push_back({example});
  return sequences;
}

std::vector<size_t> Numbers(size_t count) {
  std::vector<size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

// Batches of sequences, each of one example, or of several if they are packed.
class ExampleTask : public Task {
 public:
  ExampleTask(const Tuning& tuning, int64_t batch, uint64_t seed,
              const TaskShare& share)
      : Task(share),
        split_(std::get<ExampleSplit>(tuning.data)),
        is_packed_(tuning.model.options().packed),
        train_(is_packed_ ? PackExamples(split_, split_.train)
                          : Apart(split_.train)),
        held_out_(is_packed_ ? PackExamples(split_, split_.held_out)
                             : Apart(split_.held_out)),
        lengths_(tuning.lengths),
        held_out_batches_(tuning.held_out_batches),
        part_(PartOfRank(batch, share.ranks, share.rank)),
        batch_(batch),
        tokens_(static_cast<size_t>(batch * lengths_.front())),
        targets_(tokens_.size()),
        weights_(tokens_.size()),
        segments_(is_packed_ ? 2 * tokens_.size() : 0),
        positions_(is_packed_ ? tokens_.size() : 0),
        numbers_(Numbers(train_.size())),
        order_(numbers_, seed) {}

  size_t ShapeOf(int64_t step) override {
    if (is_packed_) return 0;
    size_t longest = 0;
    for (int64_t row = 0; row < batch_; ++row) {
      longest = std::max(
          longest,
          split_.examples.tokens(SequenceOf(step, row).front()).size());
    }
    // The last token of an example is never read.
    return ShortestThatHolds(lengths_, static_cast<int64_t>(longest) - 1);
  }

  Status WriteBatch(Runner& train, int64_t step) override {
    seq_ = lengths_[ShapeOf(step)];
    Clear(batch_);
    int64_t learnt = 0;
    for (int64_t row = 0; row < batch_; ++row) {
      learnt += Put(SequenceOf(step, row), row);
    }
    Weigh(batch_, learnt);
    return Write(train, part_);
  }

  int64_t EvaluationBatch(int64_t most) const override {
    return std::min(most, std::ssize(held_out_));
  }

  // The mean over all learned tokens.
  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                              WorkProgress& progress) override {
    seq_ = lengths_.front();
    const auto size = std::ssize(held_out_);
    const int64_t batches =
        std::min((size + batch - 1) / batch, held_out_batches_);
    const auto score = [&](int64_t i) -> Result<Score> {
      Clear(batch);
      int64_t learnt = 0;
      for (int64_t row = 0; row < batch && i * batch + row < size; ++row) {
        learnt += Put(held_out_[static_cast<size_t>(i * batch + row)], row);
      }
      Weigh(batch, learnt);
      STOWAGE_RETURN_IF_ERROR(Write(evaluate, {.first = 0, .count = batch}));
      STOWAGE_RETURN_IF_ERROR(TakeStep(evaluate));
      STOWAGE_ASSIGN_OR_RETURN(const float loss, evaluate.ReadScalar("loss"));
      return Score{loss * static_cast<double>(learnt),
                   static_cast<double>(learnt)};
    };
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<Score> scores,
                             ScoreAll(share_, batches, progress, score));
    double sum = 0, all_learnt = 0;
    for (const Score& each : scores) {
      sum += each[0];
      all_learnt += each[1];
    }
    return Evaluation{.loss = sum / all_learnt, .accuracy = std::nullopt};
  }

  int64_t train_examples() const override { return std::ssize(train_); }
  int64_t tokens_per_step(size_t shape) const override {
    return batch_ * lengths_[shape];
  }
  std::string_view token_name() const override { return "tok"; }

 private:
  // The examples in a row of the batch of `step`.
  const std::vector<size_t>& SequenceOf(int64_t step, int64_t row) {
    return train_[order_.At((step - 1) * batch_ + row)];
  }

  void Clear(int64_t batch) {
    const auto size = static_cast<size_t>(batch * seq_);
    std::fill_n(tokens_.begin(), size, 0);
    std::fill_n(targets_.begin(), size, 0);
    std::fill_n(weights_.begin(), size, 0.0f);
    if (!is_packed_) return;
    for (int64_t row = 0; row < batch; ++row) SetSegment(row, 0, seq_);
  }

  // Positions [begin, end) of a row as one text.
  void SetSegment(int64_t row, int64_t begin, int64_t end) {
    const auto first = segments_.begin() + 2 * row * seq_;
    std::fill(first + begin, first + end, static_cast<int32_t>(begin));
    std::fill(first + seq_ + begin, first + seq_ + end,
              static_cast<int32_t>(end));
    const auto position = positions_.begin() + row * seq_;
    std::iota(position + begin, position + end, 0);
  }

  // Writes examples to row `row`; returns the number of learned tokens. The rest of the row is a
  // text of padding.
  int64_t Put(const std::vector<size_t>& examples, int64_t row) {
    int64_t counted = 0, begin = 0;
    for (const size_t example : examples) {
      const std::span<const int32_t> tokens = split_.examples.tokens(example);
      const std::span<const uint8_t> learnt = split_.examples.learnt(example);
      const int64_t count = std::min(std::ssize(tokens) - 1, seq_ - begin);
      for (int64_t i = 0; i < count; ++i) {
        const auto from = static_cast<size_t>(i);
        const auto to = static_cast<size_t>(row * seq_ + begin + i);
        tokens_[to] = tokens[from];
        targets_[to] = tokens[from + 1];
        weights_[to] = learnt[from + 1];
        counted += learnt[from + 1];
      }
      if (is_packed_) SetSegment(row, begin, begin + count);
      begin += count;
    }
    if (is_packed_ && begin < seq_) SetSegment(row, begin, seq_);
    return counted;
  }

  // Weights that turn the mean over positions into the mean over learned ones.
  void Weigh(int64_t batch, int64_t learnt) {
    const float weight = static_cast<float>(batch * seq_) /
                         static_cast<float>(std::max(learnt, int64_t{1}));
    const auto size = static_cast<size_t>(batch * seq_);
    for (float& w : std::span(weights_).first(size)) w *= weight;
  }

  Status Write(Runner& runner, const BatchPart& part) {
    const auto of = [&](const auto& values, int64_t each) {
      return std::span(values).subspan(static_cast<size_t>(part.first * each),
                                       static_cast<size_t>(part.count * each));
    };
    STOWAGE_RETURN_IF_ERROR(runner.Write("tokens", of(tokens_, seq_)));
    STOWAGE_RETURN_IF_ERROR(runner.Write("targets", of(targets_, seq_)));
    STOWAGE_RETURN_IF_ERROR(runner.Write("target_weights", of(weights_, seq_)));
    if (!is_packed_) return {};
    STOWAGE_RETURN_IF_ERROR(runner.Write("segments", of(segments_, 2 * seq_)));
    // Models with position embeddings have this input.
    if (!runner.graph().Find("positions")) return {};
    return runner.Write("positions", of(positions_, seq_));
  }

  const ExampleSplit& split_;
  const bool is_packed_;
  const std::vector<std::vector<size_t>> train_, held_out_;
  const std::vector<int64_t>& lengths_;
  const int64_t held_out_batches_;
  const BatchPart part_;
  const int64_t batch_;
  int64_t seq_ = 0;  // of the current batch
  std::vector<int32_t> tokens_, targets_;
  std::vector<float> weights_;
  std::vector<int32_t> segments_;   // first positions, then ends, of each row
  std::vector<int32_t> positions_;  // of tokens in their texts
  const std::vector<size_t> numbers_;  // of train_
  TrainOrder order_;
};

}  // namespace

Result<std::unique_ptr<Task>> MakeTokenTask(const Tuning& tuning, int64_t batch,
                                            uint64_t seed,
                                            const TaskShare& share) {
  if (const auto* const shards = std::get_if<SharedShards>(&tuning.data)) {
    return MakeShardTask(*shards, batch, tuning.lengths.front(), seed,
                         tuning.held_out_batches, share);
  }
  if (const auto* const text = std::get_if<TextData>(&tuning.data)) {
    return MakeTextTask(*text, batch, tuning.lengths.front(), seed,
                        tuning.held_out_batches, share);
  }
  if (tuning.classifies()) {
    return MakeClassifyTask(tuning, batch, seed, share);
  }
  if (tuning.embeds()) return MakeEmbeddingTask(tuning, batch, seed, share);
  if (tuning.model.options().preference) {
    return MakePreferenceTask(tuning, batch, seed, share);
  }
  return std::unique_ptr<Task>(
      std::make_unique<ExampleTask>(tuning, batch, seed, share));
}

namespace {

class ShardTask : public Task {
 public:
  ShardTask(std::shared_ptr<const TokenShards> shards, int64_t batch,
            int64_t seq, uint64_t seed, int64_t evaluation_batches,
            const TaskShare& share)
      : Task(share),
        shards_(std::move(shards)),
        part_(PartOfRank(batch, share.ranks, share.rank)),
        batch_(batch),
        seq_(seq),
        seed_(seed),
        evaluation_batches_(evaluation_batches),
        places_(TokenShards::CountPlaces(shards_->train(), seq + 1)),
        windows_(TokenShards::CountWindows(shards_->held_out(), seq + 1)),
        window_(static_cast<size_t>(seq + 1)),
        tokens_(static_cast<size_t>(batch * seq)),
        targets_(tokens_.size()) {}

  Status WriteBatch(Runner& train, int64_t step) override {
    SplitMix64 random(seed_, static_cast<uint64_t>(step));
    // Each rank draws all rows, and reads its own.
    for (int64_t row = 0; row < batch_; ++row) {
      const int64_t place = random.Below(places_);
      const int64_t own = row - part_.first;
      if (own < 0 || own >= part_.count) continue;
      STOWAGE_RETURN_IF_ERROR(
          Read(TokenShards::Place(shards_->train(), seq_ + 1, place), own));
    }
    return Write(train, part_.count);
  }

  int64_t EvaluationBatch(int64_t most) const override {
    return std::min(most, windows_);
  }

  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                              WorkProgress& progress) override {
    const int64_t batches = std::min(windows_ / batch, evaluation_batches_);
    return MeanLoss(share_, evaluate, batches, progress,
                    [&](int64_t i) -> Status {
                      for (int64_t row = 0; row < batch; ++row) {
                        STOWAGE_RETURN_IF_ERROR(
                            Read(TokenShards::Window(shards_->held_out(),
                                                     seq_ + 1, i * batch + row),
                                 row));
                      }
                      return Write(evaluate, batch);
                    });
  }

  int64_t train_examples() const override {
    return TokenShards::CountWindows(shards_->train(), seq_ + 1);
  }
  int64_t tokens_per_step(size_t /*shape*/) const override {
    return batch_ * seq_;
  }
  std::string_view token_name() const override { return "tok"; }

 private:
  // Writes a window to a row, and as targets the window one token later.
  Status Read(const TokenShards::Part& window, int64_t row) {
    STOWAGE_RETURN_IF_ERROR(shards_->Read(window, window_));
    std::copy_n(window_.begin(), seq_, tokens_.begin() + row * seq_);
    std::copy_n(window_.begin() + 1, seq_, targets_.begin() + row * seq_);
    return {};
  }

  Status Write(Runner& runner, int64_t rows) const {
    const auto size = static_cast<size_t>(rows * seq_);
    STOWAGE_RETURN_IF_ERROR(
        runner.Write("tokens", std::span(tokens_).first(size)));
    return runner.Write("targets", std::span(targets_).first(size));
  }

  const std::shared_ptr<const TokenShards> shards_;
  const BatchPart part_;
  const int64_t batch_, seq_;
  const uint64_t seed_;
  const int64_t evaluation_batches_;
  const int64_t places_, windows_;  // of training and validation set
  std::vector<int32_t> window_, tokens_, targets_;
};

}  // namespace

Result<std::unique_ptr<Task>> MakeShardTask(
    std::shared_ptr<const TokenShards> shards, int64_t batch, int64_t seq,
    uint64_t seed, int64_t evaluation_batches, const TaskShare& share) {
  const bool trains = TokenShards::CountPlaces(shards->train(), seq + 1) > 0;
  if (!trains || TokenShards::CountWindows(shards->held_out(), seq + 1) == 0) {
    return InvalidArgumentError("[data] ", shards->Describe(), "; no file ",
                                trains ? "that is held out" : "to train on",
                                " has a window of ", seq,
                                " tokens and the next one; give a smaller "
                                "--seq or more tokens");
  }
  if (share.rank == 0) std::cerr << shards->Describe() << std::endl;
  return std::unique_ptr<Task>(std::make_unique<ShardTask>(
      std::move(shards), batch, seq, seed, evaluation_batches, share));
}

}  // namespace stowage::tools
