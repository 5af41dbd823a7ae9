#include "tools/preference_task.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "nn/preference.h"
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
        objective_(tuning.model.options().preference->objective),
        lengths_(tuning.lengths),
        held_out_batches_(tuning.held_out_batches),
        part_(PartOfRank(batch, share.ranks, share.rank)),
        batch_(batch),
        tokens_(static_cast<size_t>(batch * 2 * lengths_.front())),
        targets_(tokens_.size()),
        weights_(tokens_.size()),
        nll_weights_(tokens_.size() / 2),
        log_probs_(static_cast<size_t>(batch * 2)),
        of_examples_(static_cast<size_t>(batch)),
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
    Weigh(batch_);
    return Write(train, part_);
  }

  int64_t EvaluationBatch(int64_t most) const override {
    const auto size = std::ssize(split_.held_out);
    // Each example counts the others of its batch.
    if (!IsPaired(objective_)) return DividingBatch(size, most);
    return std::min(most, size);
  }

  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                              WorkProgress& progress) override {
    const auto size = std::ssize(split_.held_out);
    const int64_t batches =
        std::min((size + batch - 1) / batch, held_out_batches_);
    const auto score = [&](int64_t i) -> Result<Score> {
      const int64_t count = std::min(batch, size - i * batch);
      Begin(batch, lengths_.front());
      for (int64_t row = 0; row < count; ++row) {
        Put(split_.held_out[static_cast<size_t>(i * batch + row)], row);
      }
      Weigh(count);
      STOWAGE_RETURN_IF_ERROR(Write(evaluate, {.first = 0, .count = batch}));
      STOWAGE_RETURN_IF_ERROR(TakeStep(evaluate));
      Score sums = {};
      STOWAGE_ASSIGN_OR_RETURN(sums[0],
                               SumOf(evaluate, "losses", batch, count,
                                     [](float loss) { return double{loss}; }));
      STOWAGE_ASSIGN_OR_RETURN(
          sums[1], SumOf(evaluate, "margins", batch, count,
                         [](float margin) { return margin > 0 ? 1.0 : 0.0; }));
      return sums;
    };
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<Score> scores,
                             ScoreAll(share_, batches, progress, score));
    double loss = 0, preferred = 0;
    for (const Score& each : scores) {
      loss += each[0];
      preferred += each[1];
    }
    const auto judged = static_cast<double>(std::min(size, batches * batch));
    return Evaluation{.loss = loss / judged, .accuracy = preferred / judged};
  }

  bool has_reference() const override { return HasReference(objective_); }

  Status TakeReference(Runner& evaluate, int64_t batch, int64_t steps,
                       WorkProgress& progress) override {
    std::vector<size_t> examples = split_.held_out;
    const auto size = std::ssize(split_.train);
    if (steps >= (size + batch_ - 1) / batch_) {
      examples.insert(examples.end(), split_.train.begin(), split_.train.end());
    } else {
      for (int64_t i = 0; i < steps * batch_; ++i) {
        examples.push_back(order_.At(i));
      }
    }
    const auto count = std::ssize(examples);
    std::vector<double> log_probs(static_cast<size_t>(2 * count));
    const auto take = [&](int64_t step, bool counts) -> Status {
      const int64_t first = step * batch;
      const int64_t taken = std::min(batch, count - first);
      Begin(batch, lengths_.front());
      for (int64_t row = 0; row < taken; ++row) {
        Put(examples[static_cast<size_t>(first + row)], row);
      }
      Weigh(taken);
      STOWAGE_RETURN_IF_ERROR(Write(evaluate, {.first = 0, .count = batch}));
      STOWAGE_RETURN_IF_ERROR(TakeStep(evaluate));
      const auto read = std::span(log_probs_).first(Size(2 * batch));
      STOWAGE_RETURN_IF_ERROR(evaluate.Read("log_probs", read));
      if (!counts) return {};
      std::copy_n(read.begin(), 2 * taken, log_probs.begin() + 2 * first);
      return {};
    };
    STOWAGE_RETURN_IF_ERROR(
        TakeShare(share_, (count + batch - 1) / batch, progress, take));
    if (progress.is_stopped()) return {};
    // The others' are 0 here.
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

  size_t ExampleOf(int64_t step, int64_t row) {
    return order_.At((step - 1) * batch_ + row);
  }

  // An empty batch of sequences of `seq` tokens.
  void Begin(int64_t batch, int64_t seq) {
    seq_ = seq;
    const size_t size = Size(batch * 2 * seq);
    std::fill_n(tokens_.begin(), size, 0);
    std::fill_n(targets_.begin(), size, 0);
    std::fill_n(weights_.begin(), size, 0.0f);
    std::fill_n(nll_weights_.begin(), size / 2, 0.0f);
    std::fill_n(of_examples_.begin(), Size(batch), 0.0f);
    if (has_reference()) std::fill_n(log_probs_.begin(), Size(2 * batch), 0.0f);
    nll_tokens_ = 0;
  }

  // An example as row `row`.
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
      of_examples_[Size(row)] = split_.examples.good()[example] != 0 ? 1 : -1;
    }
  }

  // From position `begin` of the batch on; returns how many of its tokens are read.
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

  // ORPO's further loss is over the chosen sequence, its prompt included.
  void PutNll(int64_t row, int64_t read) {
    if (objective_ != PreferenceObjective::kOrpo) return;
    std::fill_n(nll_weights_.begin() + row * seq_, read, 1.0f);
    nll_tokens_ += read;
  }

  // So that the mean over so many examples is that over their tokens.
  void Weigh(int64_t examples) {
    if (objective_ != PreferenceObjective::kOrpo) return;
    const float weight = static_cast<float>(examples) /
                         static_cast<float>(std::max(nll_tokens_, int64_t{1}));
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
    return runner.Write("sides", of(of_examples_, 1));
  }

  // The sum of f over the first `count` of an output of `batch` numbers.
  template <typename F>
  Result<double> SumOf(Runner& runner, std::string_view name, int64_t batch,
                       int64_t count, F&& f) {
    const auto values = std::span(of_examples_).first(Size(batch));
    STOWAGE_RETURN_IF_ERROR(runner.Read(name, values));
    double sum = 0;
    for (const float value : values.first(Size(count))) sum += f(value);
    return sum;
  }

  const ExampleSplit& split_;
  const PreferenceObjective objective_;
  const std::vector<int64_t>& lengths_;
  const int64_t held_out_batches_;
  const BatchPart part_;
  const int64_t batch_;
  int64_t seq_ = 0;         // of the batch at hand
  int64_t nll_tokens_ = 0;  // of the batch at hand
  std::vector<int32_t> tokens_, targets_;
  std::vector<float> weights_, nll_weights_;
  std::vector<float> log_probs_;    // two an example
  std::vector<float> of_examples_;  // one an example
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
