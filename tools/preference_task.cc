#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "data/batching.h"
#include "nn/losses.h"
#include "tools/token_task.h"
#include "train/fine_tuning.h"
#include "train/step_builder.h"

namespace stowage::tools {

namespace {

class PreferenceTask : public Task {
 public:
  PreferenceTask(const Tuning& tuning, int64_t batch, uint64_t seed,
                 const TaskShare& share)
      : Task(share),
        split_(std::get<ExampleSplit>(tuning.data)),
        rules_(*tuning.model.options().preference),
        objective_(rules_.objective),
        lengths_(tuning.lengths),
        held_out_batches_(tuning.held_out_batches),
        part_(PartOfRank(batch, share.ranks, share.rank)),
        batch_(batch),
        tokens_(static_cast<size_t>(batch * 2 * lengths_.front())),
        targets_(tokens_.size()),
        weights_(tokens_.size()),
        nll_weights_(tokens_.size() / 2),
        log_probs_(static_cast<size_t>(batch * 2)),
        sides_(static_cast<size_t>(batch)),
        read_(static_cast<size_t>(batch * 2)),
        references_(has_reference() ? split_.size() : 0),
        order_(split_.train, seed) {}

  size_t ShapeOf(int64_t step) override {
    int64_t longest = 0;
    for (int64_t row = 0; row < batch_; ++row) {
      longest = std::max(longest, split_.LongestOf(ExampleOf(step, row)));
    }
    // The last token of a sequence is never read.
    return ShortestThatHolds(lengths_, longest - 1);
  }

  Status WriteBatch(Runner& train, int64_t step) override {
    Begin(batch_, lengths_[ShapeOf(step)]);
    for (int64_t row = 0; row < batch_; ++row) Put(ExampleOf(step, row), row);
    Weigh(batch_, nll_tokens_);
    return Write(train, part_);
  }

  int64_t EvaluationBatch(int64_t most) const override {
    return std::min(most, std::ssize(split_.held_out));
  }

  // Evaluates all examples of Judged, independently of the batches.
  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                              WorkProgress& progress) override {
    const std::vector<size_t> judged = Judged(batch);
    const auto count = std::ssize(judged);
    const int64_t tokens = NllTokens(judged);
    // For each example, the loss, the margin, and the log-probabilities of both sequences.
    std::vector<double> results(Size(4 * count));
    const auto take = [&](int64_t first, int64_t taken, bool counts) -> Status {
      Weigh(count, tokens);
      STOWAGE_RETURN_IF_ERROR(Write(evaluate, {.first = 0, .count = batch}));
      STOWAGE_RETURN_IF_ERROR(TakeStep(evaluate));
      if (!counts) return {};
      STOWAGE_RETURN_IF_ERROR(ReadColumns(evaluate, "losses", 1, batch, taken,
                                          &results[Size(4 * first)]));
      STOWAGE_RETURN_IF_ERROR(ReadColumns(evaluate, "margins", 1, batch, taken,
                                          &results[Size(4 * first) + 1]));
      return ReadColumns(evaluate, "log_probs", 2, batch, taken,
                         &results[Size(4 * first) + 2]);
    };
    STOWAGE_RETURN_IF_ERROR(TakeBatches(judged, batch, progress, take));
    if (progress.is_stopped()) return Evaluation();
    // Other ranks' results are 0 here.
    if (share_.sum) STOWAGE_RETURN_IF_ERROR(share_.sum(results));
    if (!IsPaired(objective_)) JudgeTogether(judged, results);
    double loss = 0, preferred = 0;
    for (int64_t i = 0; i < count; ++i) {
      loss += results[Size(4 * i)];
      preferred += results[Size(4 * i) + 1] > 0 ? 1 : 0;
    }
    const auto all = static_cast<double>(count);
    return Evaluation{.loss = loss / all, .accuracy = preferred / all};
  }

  bool has_reference() const override { return HasReference(objective_); }

  Status TakeReference(Runner& evaluate, int64_t batch, int64_t steps,
                       WorkProgress& progress) override {
    std::vector<size_t> examples = Judged(batch);
    const auto size = std::ssize(split_.train);
    if (steps >= (size + batch_ - 1) / batch_) {
      examples.insert(examples.end(), split_.train.begin(), split_.train.end());
    } else {
      for (int64_t i = 0; i < steps * batch_; ++i) {
        examples.push_back(order_.At(i));
      }
    }
    const auto count = std::ssize(examples);
    std::vector<double> log_probs(Size(2 * count));
    const auto take = [&](int64_t first, int64_t taken, bool counts) -> Status {
      STOWAGE_RETURN_IF_ERROR(Write(evaluate, {.first = 0, .count = batch}));
      STOWAGE_RETURN_IF_ERROR(TakeStep(evaluate));
      const auto read = std::span(read_).first(Size(2 * batch));
      STOWAGE_RETURN_IF_ERROR(evaluate.Read("log_probs", read));
      if (!counts) return {};
      std::copy_n(read.begin(), 2 * taken, log_probs.begin() + 2 * first);
      return {};
    };
    STOWAGE_RETURN_IF_ERROR(TakeBatches(examples, batch, progress, take));
    if (progress.is_stopped()) return {};
    // Other ranks' results are 0 here.
    if (share_.sum) STOWAGE_RETURN_IF_ERROR(share_.sum(log_probs));
    for (int64_t i = 0; i < count; ++i) {
      references_[examples[Size(i)]] = {
          static_cast<float>(log_probs[Size(2 * i)]),
          static_cast<float>(log_probs[Size(2 * i + 1)])};
    }
    return {};
  }

  int64_t train_examples() const override { return std::ssize(split_.train); }
  int64_t tokens_per_step(size_t shape) const override {
    return batch_ * 2 * lengths_[shape];
  }
  std::string_view token_name() const override { return "tok"; }

 private:
  static size_t Size(int64_t count) { return static_cast<size_t>(count); }

  // The examples of the validation set that an evaluation with this batch takes.
  std::vector<size_t> Judged(int64_t batch) const {
    const auto size = std::ssize(split_.held_out);
    const int64_t count = std::min(size, held_out_batches_ * batch);
    return {split_.held_out.begin(), split_.held_out.begin() + count};
  }

  // Calls take(first, taken, counts) for this rank's batches of examples, after writing their
  // inputs.
  template <typename F>
  Status TakeBatches(const std::vector<size_t>& examples, int64_t batch,
                     WorkProgress& progress, F&& take) {
    const auto count = std::ssize(examples);
    return TakeShare(share_, (count + batch - 1) / batch, progress,
                     [&](int64_t step, bool counts) -> Status {
                       const int64_t first = step * batch;
                       const int64_t taken = std::min(batch, count - first);
                       Begin(batch, lengths_.front());
                       for (int64_t row = 0; row < taken; ++row) {
                         Put(examples[Size(first + row)], row);
                       }
                       return take(first, taken, counts);
                     });
  }

  // Reads `taken` rows of an output (batch, columns) to `to`, with a stride of 4.
  Status ReadColumns(Runner& runner, std::string_view name, int64_t columns,
                     int64_t batch, int64_t taken, double* to) {
    const auto values = std::span(read_).first(Size(columns * batch));
    STOWAGE_RETURN_IF_ERROR(runner.Read(name, values));
    for (int64_t i = 0; i < taken * columns; ++i) {
      to[i / columns * 4 + i % columns] = values[Size(i)];
    }
    return {};
  }

  // Computes KTO's losses and margins with the mean over all examples (nn/losses.h).
  void JudgeTogether(const std::vector<size_t>& judged,
                     std::vector<double>& results) const {
    const auto above = [&](size_t i, size_t which) {
      return results[4 * i + 2 + which] - double{references_[judged[i]][which]};
    };
    double k = 0;
    for (size_t i = 0; i < judged.size(); ++i) {
      k += above(i, 1) / static_cast<double>(judged.size());
    }
    k = std::max(k, 0.0);
    for (size_t i = 0; i < judged.size(); ++i) {
      const double side = split_.examples.good()[judged[i]] != 0 ? 1 : -1;
      const double margin = side * rules_.beta * (above(i, 0) - k);
      results[4 * i] = 1 / (1 + std::exp(margin));
      results[4 * i + 1] = margin;
    }
  }

  // The number of tokens in ORPO's likelihood loss.
  int64_t NllTokens(const std::vector<size_t>& examples) const {
    if (objective_ != PreferenceObjective::kOrpo) return 0;
    int64_t tokens = 0;
    for (const size_t example : examples) {
      tokens += std::min(split_.Of(example, 0).size() - 1, lengths_.front());
    }
    return tokens;
  }

  size_t ExampleOf(int64_t step, int64_t row) {
    return order_.At((step - 1) * batch_ + row);
  }

  // Clears the batch for sequences of `seq` tokens.
  void Begin(int64_t batch, int64_t seq) {
    seq_ = seq;
    const size_t size = Size(batch * 2 * seq);
    std::fill_n(tokens_.begin(), size, 0);
    std::fill_n(targets_.begin(), size, 0);
    std::fill_n(weights_.begin(), size, 0.0f);
    std::fill_n(nll_weights_.begin(), size / 2, 0.0f);
    std::fill_n(sides_.begin(), Size(batch), 0.0f);
    if (has_reference()) std::fill_n(log_probs_.begin(), Size(2 * batch), 0.0f);
    nll_tokens_ = 0;
  }

  // Writes an example to row `row`.
  void Put(size_t example, int64_t row) {
    for (int which = 0; which < 2; ++which) {
      const size_t begin = Size((2 * row + which) * seq_);
      const int64_t read = PutSequence(split_.Of(example, which), begin);
      if (which == 0) PutNll(row, read);
    }
    if (has_reference()) {
      std::ranges::copy(references_[example], log_probs_.begin() + 2 * row);
    }
    if (!IsPaired(objective_)) {
      sides_[Size(row)] = split_.examples.good()[example] != 0 ? 1 : -1;
    }
  }

  // Writes a sequence from position `begin` of the batch on; returns the number of tokens read.
  int64_t PutSequence(const Sequence& sequence, size_t begin) {
    const int64_t count = std::min(sequence.size(), seq_ + 1);
    float learnt = 0;
    int64_t at = 0;
    for (size_t part = 0; part < 2; ++part) {
      for (size_t i = 0; i < sequence.tokens[part].size() && at < count;
           ++i, ++at) {
        const int32_t token = sequence.tokens[part][i];
        if (at + 1 < count) tokens_[begin + Size(at)] = token;
        if (at == 0) continue;
        targets_[begin + Size(at) - 1] = token;
        weights_[begin + Size(at) - 1] = sequence.learnt[part][i];
        learnt += sequence.learnt[part][i];
      }
    }
    if (IsMeanOverTokens(objective_)) {
      for (float& weight : std::span(weights_).subspan(begin, Size(seq_))) {
        weight /= std::max(learnt, 1.0f);
      }
    }
    return count - 1;
  }

  // ORPO's likelihood loss covers the chosen sequence, including its prompt.
  void PutNll(int64_t row, int64_t read) {
    if (objective_ != PreferenceObjective::kOrpo) return;
    std::fill_n(nll_weights_.begin() + row * seq_, read, 1.0f);
    nll_tokens_ += read;
  }

  // Weights that turn the mean over examples into the mean over tokens.
  void Weigh(int64_t examples, int64_t tokens) {
    if (objective_ != PreferenceObjective::kOrpo) return;
    const float weight = static_cast<float>(examples) /
                         static_cast<float>(std::max(tokens, int64_t{1}));
    for (float& w : nll_weights_) w *= weight;
  }

  Status Write(Runner& runner, const BatchPart& part) {
    const auto of = [&](const auto& values, int64_t each) {
      return std::span(values).subspan(Size(part.first * each),
                                       Size(part.count * each));
    };
    STOWAGE_RETURN_IF_ERROR(runner.Write("tokens", of(tokens_, 2 * seq_)));
    STOWAGE_RETURN_IF_ERROR(runner.Write("targets", of(targets_, 2 * seq_)));
    STOWAGE_RETURN_IF_ERROR(
        runner.Write("target_weights", of(weights_, 2 * seq_)));
    if (has_reference()) {
      STOWAGE_RETURN_IF_ERROR(
          runner.Write("reference_log_probs", of(log_probs_, 2)));
    }
    if (objective_ == PreferenceObjective::kOrpo) {
      STOWAGE_RETURN_IF_ERROR(
          runner.Write("nll_weights", of(nll_weights_, seq_)));
    }
    if (IsPaired(objective_)) return {};
    return runner.Write("sides", of(sides_, 1));
  }

  const ExampleSplit& split_;
  const PreferenceRules rules_;
  const PreferenceObjective objective_;
  const std::vector<int64_t>& lengths_;
  const int64_t held_out_batches_;
  const BatchPart part_;
  const int64_t batch_;
  int64_t seq_ = 0;         // of the current batch
  int64_t nll_tokens_ = 0;  // of the current batch
  std::vector<int32_t> tokens_, targets_;
  std::vector<float> weights_, nll_weights_;
  std::vector<float> log_probs_;  // of the reference, two per example
  std::vector<float> sides_;      // of KTO, one per example
  std::vector<float> read_;       // results, up to two per example
  std::vector<std::array<float, 2>> references_;
  TrainOrder order_;
};

}  // namespace

std::unique_ptr<Task> MakePreferenceTask(const Tuning& tuning, int64_t batch,
                                         uint64_t seed,
                                         const TaskShare& share) {
  return std::make_unique<PreferenceTask>(tuning, batch, seed, share);
}

}  // namespace stowage::tools
