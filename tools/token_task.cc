#include "tools/token_task.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "nn/random.h"
#include "train/lengths.h"
#include "train/step_builder.h"

namespace stowage::tools {
namespace {

class ExampleTask : public Task {
 public:
  ExampleTask(const Tuning& tuning, int64_t batch, uint64_t seed,
              const TaskShare& share)
      : Task(share),
        split_(std::get<ExampleSplit>(tuning.data)),
        lengths_(tuning.lengths),
        held_out_batches_(tuning.held_out_batches),
        part_(PartOfRank(batch, share.ranks, share.rank)),
        batch_(batch),
        seed_(seed),
        tokens_(static_cast<size_t>(batch * lengths_.front())),
        targets_(tokens_.size()),
        weights_(tokens_.size()),
        order_(split_.train.size()) {}

  size_t ShapeOf(int64_t step) override {
    size_t longest = 0;
    for (int64_t row = 0; row < batch_; ++row) {
      longest = std::max(longest,
                         split_.examples.tokens(ExampleOf(step, row)).size());
    }
    // The last token of an example is never read.
    return ShortestThatHolds(lengths_, static_cast<int64_t>(longest) - 1);
  }

  Status WriteBatch(Runner& train, int64_t step) override {
    seq_ = lengths_[ShapeOf(step)];
    Clear(batch_);
    int64_t learnt = 0;
    for (int64_t row = 0; row < batch_; ++row) {
      learnt += Put(ExampleOf(step, row), row);
    }
    Weigh(batch_, learnt);
    return Write(train, part_);
  }

  int64_t EvaluationBatch(int64_t most) const override {
    return std::min(most, std::ssize(split_.held_out));
  }

  // The mean over all tokens that are to be learnt.
  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                              WorkProgress& progress) override {
    seq_ = lengths_.front();
    const auto size = std::ssize(split_.held_out);
    const int64_t batches =
        std::min((size + batch - 1) / batch, held_out_batches_);
    const auto score = [&](int64_t i) -> Result<Score> {
      Clear(batch);
      int64_t learnt = 0;
      for (int64_t row = 0; row < batch && i * batch + row < size; ++row) {
        learnt +=
            Put(split_.held_out[static_cast<size_t>(i * batch + row)], row);
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

  int64_t train_examples() const override { return std::ssize(split_.train); }
  int64_t tokens_per_step(size_t shape) const override {
    return batch_ * lengths_[shape];
  }
  std::string_view token_name() const override { return "tok"; }

 private:
  // The example in a row of the batch of `step`.
  size_t ExampleOf(int64_t step, int64_t row) {
    const auto size = std::ssize(split_.train);
    const int64_t at = (step - 1) * batch_ + row;
    Shuffle(at / size);
    return split_.train[order_[static_cast<size_t>(at % size)]];
  }

  // The order of the train part in a pass, by Fisher and Yates's shuffle.
  void Shuffle(int64_t pass) {
    if (pass == pass_) return;
    pass_ = pass;
    std::iota(order_.begin(), order_.end(), size_t{0});
    SplitMix64 random(seed_, static_cast<uint64_t>(pass));
    for (size_t left = order_.size(); left > 1; --left) {
      std::swap(order_[left - 1], order_[static_cast<size_t>(random.Below(
                                      static_cast<int64_t>(left)))]);
    }
  }

  void Clear(int64_t batch) {
    const auto size = static_cast<size_t>(batch * seq_);
    std::fill_n(tokens_.begin(), size, 0);
    std::fill_n(targets_.begin(), size, 0);
    std::fill_n(weights_.begin(), size, 0.0f);
  }

  // An example as row `row`; returns how many of its tokens are to be learnt.
  int64_t Put(size_t example, int64_t row) {
    const std::span<const int32_t> tokens = split_.examples.tokens(example);
    const std::span<const uint8_t> learnt = split_.examples.learnt(example);
    const int64_t count = std::min(std::ssize(tokens) - 1, seq_);
    int64_t counted = 0;
    for (int64_t i = 0; i < count; ++i) {
      const auto from = static_cast<size_t>(i);
      const auto to = static_cast<size_t>(row * seq_ + i);
      tokens_[to] = tokens[from];
      targets_[to] = tokens[from + 1];
      weights_[to] = learnt[from + 1];
      counted += learnt[from + 1];
    }
    return counted;
  }

  // So that the mean over all positions is that over the learnt ones.
  void Weigh(int64_t batch, int64_t learnt) {
    const float weight = static_cast<float>(batch * seq_) /
                         static_cast<float>(std::max(learnt, int64_t{1}));
    const auto size = static_cast<size_t>(batch * seq_);
    for (float& w : std::span(weights_).first(size)) w *= weight;
  }

  Status Write(Runner& runner, const BatchPart& part) {
    const auto first = static_cast<size_t>(part.first * seq_);
    const auto size = static_cast<size_t>(part.count * seq_);
    STOWAGE_RETURN_IF_ERROR(runner.Write(
        "tokens", std::span<const int32_t>(tokens_).subspan(first, size)));
    STOWAGE_RETURN_IF_ERROR(runner.Write(
        "targets", std::span<const int32_t>(targets_).subspan(first, size)));
    return runner.Write("target_weights",
                        std::span<const float>(weights_).subspan(first, size));
  }

  const ExampleSplit& split_;
  const std::vector<int64_t>& lengths_;
  const int64_t held_out_batches_;
  const BatchPart part_;
  const int64_t batch_;
  int64_t seq_ = 0;  // of the batch at hand
  const uint64_t seed_;
  std::vector<int32_t> tokens_, targets_;
  std::vector<float> weights_;
  std::vector<size_t> order_;
  int64_t pass_ = -1;
};

}  // namespace

std::unique_ptr<Task> MakeTokenTask(const Tuning& tuning, int64_t batch,
                                    uint64_t seed, const TaskShare& share) {
  if (const auto* const text = std::get_if<TextData>(&tuning.data)) {
    return MakeTextTask(*text, batch, tuning.lengths.front(), seed,
                        tuning.held_out_batches, share);
  }
  return std::make_unique<ExampleTask>(tuning, batch, seed, share);
}

}  // namespace stowage::tools
