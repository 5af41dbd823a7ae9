// The task of stowage finetune --objective embed: batches of queries with their documents, and
// the evaluation by all documents of the validation set.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "data/batching.h"
#include "data/contrastive_texts.h"
#include "nn/contrastive.h"
#include "runtime/values.h"
#include "tools/task.h"
#include "tools/token_task.h"
#include "tools/tuning.h"
#include "train/evaluation.h"
#include "train/fine_tuning.h"
#include "train/step_builder.h"

namespace stowage::tools {

namespace {

// The dot product, in a fixed order of eight sums that a compiler vectorizes.
float Dot(std::span<const float> a, std::span<const float> b) {
  constexpr size_t kSums = 8;
  std::array<float, kSums> sums = {};
  size_t i = 0;
  for (; i + kSums <= a.size(); i += kSums) {
    for (size_t k = 0; k < kSums; ++k) sums[k] += a[i + k] * b[i + k];
  }
  float sum = 0;
  for (; i < a.size(); ++i) sum += a[i] * b[i];
  for (const float part : sums) sum += part;
  return sum;
}

// log sum e^x.
double LogSumExp(std::span<const double> scores) {
  const double largest = std::ranges::max(scores);
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - largest);
  return largest + std::log(sum);
}

// The embeddings of validation examples: a query and its documents each.
class Embedded {
 public:
  Embedded(int64_t examples, int64_t texts, int64_t width)
      : texts_(static_cast<size_t>(texts)),
        width_(static_cast<size_t>(width)),
        numbers_(static_cast<size_t>(examples * texts)),
        rows_(numbers_.size() * width_) {}

  size_t size() const { return numbers_.size() / texts_; }
  size_t texts() const { return texts_; }
  // The numbers of an example's texts in the split.
  std::span<size_t> Numbers(size_t example) {
    return std::span(numbers_).subspan(example * texts_, texts_);
  }
  std::span<float> Rows(size_t example) {
    return std::span(rows_).subspan(example * texts_ * width_, texts_ * width_);
  }
  size_t Number(size_t example, size_t text) const {
    return numbers_[example * texts_ + text];
  }
  double Similarity(size_t query, size_t example, size_t text) const {
    return Dot(Row(query, 0), Row(example, text));
  }

 private:
  std::span<const float> Row(size_t example, size_t text) const {
    return std::span(rows_).subspan((example * texts_ + text) * width_, width_);
  }

  const size_t texts_, width_;
  std::vector<size_t> numbers_;
  std::vector<float> rows_;
};

// The loss of examples in groups of `batch`; recall at 1 and the mean reciprocal rank of the
// queries' documents among all. Another document of the same text is not counted.
Evaluation MetricsOf(const Embedded& all, const EmbeddingRules& rules,
                     size_t batch) {
  double loss = 0, recalled = 0, reciprocal = 0;
  std::vector<double> scores;
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t first = i / batch * batch;
    const size_t end = std::min(first + batch, all.size());
    const double own = all.Similarity(i, i, 1);
    int64_t rank = 1;
    scores.clear();
    for (size_t j = 0; j < all.size(); ++j) {
      for (size_t text = 1; text < all.texts(); ++text) {
        const double similarity = all.Similarity(i, j, text);
        if (j >= first && j < end) scores.push_back(rules.scale * similarity);
        const bool is_same = all.Number(j, text) == all.Number(i, 1);
        rank += !is_same && similarity >= own ? 1 : 0;
      }
    }
    double of_query = LogSumExp(scores) - rules.scale * own;
    if (rules.symmetric) {
      scores.clear();
      for (size_t j = first; j < end; ++j) {
        scores.push_back(rules.scale * all.Similarity(j, i, 1));
      }
      of_query = (of_query + LogSumExp(scores) - rules.scale * own) / 2;
    }
    loss += of_query;
    recalled += rank == 1 ? 1 : 0;
    reciprocal += 1 / static_cast<double>(rank);
  }
  const auto count = static_cast<double>(all.size());
  return {.loss = loss / count,
          .accuracy = recalled / count,
          .metrics = {{"mrr", reciprocal / count}}};
}

class EmbeddingTask : public Task {
 public:
  // Every rank evaluates all examples, since it ranks each among all.
  EmbeddingTask(const Tuning& tuning, int64_t batch, uint64_t seed,
                const TaskShare& share)
      : Task(TaskShare()),
        split_(std::get<ContrastiveSplit>(tuning.data)),
        rules_(*tuning.model.options().embedding),
        width_(tuning.model.base().width()),
        lengths_(tuning.lengths),
        held_out_batches_(tuning.held_out_batches),
        part_(PartOfRank(batch, share.ranks, share.rank)),
        batch_(batch),
        texts_(1 + rules_.documents),
        seed_(seed),
        tokens_(static_cast<size_t>(batch * texts_ * lengths_.front())),
        text_lengths_(static_cast<size_t>(batch * texts_)),
        drawn_(static_cast<size_t>(texts_)),
        order_(split_.train, seed) {}

  size_t ShapeOf(int64_t step) override {
    int64_t longest = 0;
    for (int64_t row = 0; row < batch_; ++row) {
      Draw(step, row);
      for (const size_t text : drawn_) {
        longest = std::max(longest, std::ssize(split_.texts[text]));
      }
    }
    return ShortestThatHolds(lengths_, longest);
  }

  Status WriteBatch(Runner& train, int64_t step) override {
    Begin(batch_, lengths_[ShapeOf(step)]);
    for (int64_t row = 0; row < batch_; ++row) {
      Draw(step, row);
      Put(drawn_, row);
    }
    return Write(train, part_);
  }

  int64_t EvaluationBatch(int64_t most) const override {
    return std::min(most, std::ssize(split_.held_out));
  }

  // The batch of the program does not affect results.
  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                              WorkProgress& progress) override {
    const int64_t count =
        std::min(std::ssize(split_.held_out), held_out_batches_ * batch_);
    Embedded all(count, texts_, width_);
    const auto take = [&](int64_t step, bool /*counts*/) -> Status {
      const int64_t first = step * batch;
      const int64_t taken = std::min(batch, count - first);
      Begin(batch, lengths_.front());
      for (int64_t row = 0; row < taken; ++row) {
        const auto at = static_cast<size_t>(first + row);
        const size_t example = split_.held_out[at];
        const std::span<size_t> numbers = all.Numbers(at);
        numbers[0] = split_.examples[example].query;
        split_.Documents(example, {}, numbers.subspan(1));
        Put(numbers, row);
      }
      STOWAGE_RETURN_IF_ERROR(Write(evaluate, {.first = 0, .count = batch}));
      STOWAGE_RETURN_IF_ERROR(TakeStep(evaluate));
      STOWAGE_ASSIGN_OR_RETURN(const std::vector<float> embeddings,
                               ReadFloats(evaluate, "embeddings"));
      const auto size = static_cast<size_t>(texts_ * width_);
      for (size_t row = 0; row < static_cast<size_t>(taken); ++row) {
        std::ranges::copy(std::span(embeddings).subspan(row * size, size),
                          all.Rows(static_cast<size_t>(first) + row).begin());
      }
      return {};
    };
    STOWAGE_RETURN_IF_ERROR(
        TakeShare(share_, (count + batch - 1) / batch, progress, take));
    if (progress.is_stopped()) return Evaluation();
    return MetricsOf(all, rules_, static_cast<size_t>(batch_));
  }

  // The examples of a pass: whole batches, so that no batch has an example twice.
  int64_t train_examples() const override { return BatchesOfPass() * batch_; }
  int64_t tokens_per_step(size_t shape) const override {
    return batch_ * texts_ * lengths_[shape];
  }
  std::string_view token_name() const override { return "tok"; }

 private:
  int64_t BatchesOfPass() const { return std::ssize(split_.train) / batch_; }

  // Sets `drawn_` to the texts in a row of the batch of `step`.
  void Draw(int64_t step, int64_t row) {
    const int64_t pass = (step - 1) / BatchesOfPass();
    const int64_t position = pass * std::ssize(split_.train) +
                             (step - 1) % BatchesOfPass() * batch_ + row;
    const size_t example = order_.At(position);
    // A stream apart from that of the order.
    constexpr uint64_t kDocuments = 0x646f63756d656e74;
    drawn_[0] = split_.examples[example].query;
    split_.Documents(
        example,
        SplitMix64(seed_ ^ kDocuments, static_cast<uint64_t>(position)),
        std::span(drawn_).subspan(1));
  }

  // Clears the batch for texts of `seq` tokens: all is padding, with one token per text.
  void Begin(int64_t batch, int64_t seq) {
    seq_ = seq;
    std::fill_n(tokens_.begin(), batch * texts_ * seq, 0);
    std::fill_n(text_lengths_.begin(), batch * texts_, 1);
  }

  void Put(std::span<const size_t> texts, int64_t row) {
    for (int64_t i = 0; i < texts_; ++i) {
      const std::vector<int32_t>& tokens =
          split_.texts[texts[static_cast<size_t>(i)]];
      const int64_t at = row * texts_ + i;
      std::ranges::copy(tokens, tokens_.begin() + at * seq_);
      text_lengths_[static_cast<size_t>(at)] =
          static_cast<int32_t>(tokens.size());
    }
  }

  Status Write(Runner& runner, const BatchPart& part) {
    const auto of = [&](const std::vector<int32_t>& values, int64_t each) {
      return std::span(values).subspan(static_cast<size_t>(part.first * each),
                                       static_cast<size_t>(part.count * each));
    };
    STOWAGE_RETURN_IF_ERROR(runner.Write("tokens", of(tokens_, texts_ * seq_)));
    return runner.Write("lengths", of(text_lengths_, texts_));
  }

  const ContrastiveSplit& split_;
  const EmbeddingRules rules_;
  const int64_t width_;
  const std::vector<int64_t>& lengths_;  // of sequences
  const int64_t held_out_batches_;
  const BatchPart part_;
  const int64_t batch_;
  const int64_t texts_;  // of an example
  const uint64_t seed_;
  int64_t seq_ = 0;  // of the current batch
  std::vector<int32_t> tokens_, text_lengths_;
  std::vector<size_t> drawn_;
  TrainOrder order_;
};

}  // namespace

Result<std::unique_ptr<Task>> MakeEmbeddingTask(const Tuning& tuning,
                                                int64_t batch, uint64_t seed,
                                                const TaskShare& share) {
  const auto& split = std::get<ContrastiveSplit>(tuning.data);
  if (batch > std::ssize(split.train)) {
    return InvalidArgumentError(
        "[finetune] batch ", batch, " is larger than the training set of ",
        split.train.size(),
        " examples, and an example twice in a batch would be its own negative; "
        "give a smaller --batch, or more data");
  }
  if (batch == 1 && split.negatives == 0) {
    return InvalidArgumentError(
        "[finetune] a batch of 1 example without negatives has nothing to "
        "compare; give a larger --batch, or data with negatives");
  }
  return std::unique_ptr<Task>(
      std::make_unique<EmbeddingTask>(tuning, batch, seed, share));
}

}  // namespace stowage::tools
