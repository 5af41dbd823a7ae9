// stowage finetune --objective classify: reads the model and the labeled texts, and makes the
// task of them.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "data/batching.h"
#include "data/example_split.h"
#include "data/labeled_texts.h"
#include "data/text_data.h"
#include "formats/weights_file.h"
#include "nn/published_model.h"
#include "runtime/values.h"
#include "text/text_template.h"
#include "text/tokenizer_file.h"
#include "tools/task.h"
#include "tools/token_task.h"
#include "tools/tuning.h"
#include "train/evaluation.h"
#include "train/fine_tuning.h"
#include "train/step_builder.h"

namespace stowage::tools {
namespace {

Result<LabeledTexts> ReadTexts(const std::string& path) {
  const std::optional<TableFormat> format = TableFormatOf(path);
  if (!format) {
    return InvalidArgumentError(
        "[objective] classify learns from rows with labels, and ", Quoted(path),
        " is none of .jsonl, .csv and .tsv");
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  STOWAGE_RETURN_IF_ERROR(CheckIsText(bytes, path));
  STOWAGE_ASSIGN_OR_RETURN(LabeledTexts texts,
                           ReadLabeledTexts(bytes, path, *format));
  ListUnreadKeys(texts.unread_keys, texts.rows.size(), path);
  return texts;
}

// The configuration of the file's head; default if it has none.
Result<EncoderConfig> ReadEncoder(const std::string& weights) {
  STOWAGE_ASSIGN_OR_RETURN(const WeightsFile file, WeightsFile::Open(weights));
  STOWAGE_ASSIGN_OR_RETURN(PublishedModel model, DescribeModel(file));
  return std::get<EncoderConfig>(std::move(model.config));
}

}  // namespace

Result<Tuning> ReadClassifierTuning(const TuningFlags& flags, DType dtype,
                                    int64_t seq) {
  STOWAGE_RETURN_IF_ERROR(CheckNoTokenFlags(flags));
  STOWAGE_ASSIGN_OR_RETURN(const LabeledTexts texts, ReadTexts(flags.data));
  STOWAGE_ASSIGN_OR_RETURN(const EncoderConfig encoder,
                           ReadEncoder(flags.weights));
  std::vector<std::string> names = encoder.labels;
  if (names.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(names, LabelNames(texts, flags.data));
  }
  STOWAGE_ASSIGN_OR_RETURN(std::vector<int32_t> labels,
                           FindLabels(texts, names, flags.data));
  FineTuningOptions options{
      .dtype = dtype,
      .classifier =
          ClassifierOptions{.labels = names,
                            .hidden_dropout = flags.hidden_dropout,
                            .attention_dropout = flags.attention_dropout,
                            .classifier_dropout = flags.classifier_dropout}};
  STOWAGE_RETURN_IF_ERROR(ReadAdapterFlags(flags, &encoder.names, &options));
  STOWAGE_ASSIGN_OR_RETURN(FineTuning model,
                           FineTuning::Open(flags.weights, options));
  STOWAGE_ASSIGN_OR_RETURN(Tokenizer tokenizer,
                           ReadTokenizerOf(flags, model, seq));
  STOWAGE_ASSIGN_OR_RETURN(const TextTemplate joins, ReadTextTemplate(flags));
  STOWAGE_ASSIGN_OR_RETURN(
      LabeledSplit split,
      SplitLabeledTexts(texts, std::move(labels), tokenizer, joins,
                        {.seq = seq,
                         .drops = flags.too_long == "drop",
                         .types = encoder.types},
                        flags.data));
  ReportLostBytes(tokenizer, split.without_token, Quoted(flags.data));
  STOWAGE_ASSIGN_OR_RETURN(
      std::vector<int64_t> lengths,
      ReadLengths(flags.lengths, TextLengths(split, split.train),
                  TextLengths(split, split.held_out), seq));
  return Tuning{.model = std::move(model),
                .tokenizer = std::move(tokenizer),
                .ends = {},
                .data = std::move(split),
                .lengths = std::move(lengths),
                .adapter = flags.adapter,
                .held_out_batches = flags.held_out_batches};
}

namespace {

// -log softmax(logits)[label], in nats.
double CrossEntropyOf(std::span<const float> logits, int32_t label) {
  const double largest = std::ranges::max(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return std::log(sum) + largest - logits[static_cast<size_t>(label)];
}

class ClassifyTask : public Task {
 public:
  ClassifyTask(const Tuning& tuning, int64_t batch, uint64_t seed,
               const TaskShare& share)
      : Task(share),
        split_(std::get<LabeledSplit>(tuning.data)),
        classes_(std::ssize(tuning.model.base().encoder()->labels)),
        has_types_(tuning.model.base().encoder()->types > 1),
        lengths_(tuning.lengths),
        held_out_batches_(tuning.held_out_batches),
        part_(PartOfRank(batch, share.ranks, share.rank)),
        batch_(batch),
        tokens_(static_cast<size_t>(batch * lengths_.front())),
        types_(has_types_ ? tokens_.size() : 0),
        text_lengths_(static_cast<size_t>(batch)),
        labels_(static_cast<size_t>(batch)),
        order_(split_.train, seed) {}

  size_t ShapeOf(int64_t step) override {
    int64_t longest = 0;
    for (int64_t row = 0; row < batch_; ++row) {
      longest =
          std::max(longest, std::ssize(split_.texts[TextOf(step, row)].tokens));
    }
    return ShortestThatHolds(lengths_, longest);
  }

  Status WriteBatch(Runner& train, int64_t step) override {
    Begin(batch_, lengths_[ShapeOf(step)]);
    for (int64_t row = 0; row < batch_; ++row) Put(TextOf(step, row), row);
    return Write(train, part_);
  }

  int64_t EvaluationBatch(int64_t most) const override {
    return std::min(most, std::ssize(split_.held_out));
  }

  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                              WorkProgress& progress) override {
    const int64_t count =
        std::min(std::ssize(split_.held_out), held_out_batches_ * batch);
    // For each text, the loss and the predicted label.
    std::vector<double> results(static_cast<size_t>(2 * count));
    const auto take = [&](int64_t step, bool counts) -> Status {
      const int64_t first = step * batch;
      const int64_t taken = std::min(batch, count - first);
      Begin(batch, lengths_.front());
      for (int64_t row = 0; row < taken; ++row) {
        Put(split_.held_out[static_cast<size_t>(first + row)], row);
      }
      STOWAGE_RETURN_IF_ERROR(Write(evaluate, {.first = 0, .count = batch}));
      STOWAGE_RETURN_IF_ERROR(TakeStep(evaluate));
      if (!counts) return {};
      STOWAGE_ASSIGN_OR_RETURN(const std::vector<float> logits,
                               ReadFloats(evaluate, "logits"));
      for (int64_t row = 0; row < taken; ++row) {
        const auto of_row = std::span(logits).subspan(
            static_cast<size_t>(row * classes_), static_cast<size_t>(classes_));
        const auto at = static_cast<size_t>(2 * (first + row));
        results[at] = CrossEntropyOf(of_row, labels_[static_cast<size_t>(row)]);
        results[at + 1] = static_cast<double>(std::ranges::max_element(of_row) -
                                              of_row.begin());
      }
      return {};
    };
    STOWAGE_RETURN_IF_ERROR(
        TakeShare(share_, (count + batch - 1) / batch, progress, take));
    if (progress.is_stopped()) return Evaluation();
    // Other ranks' results are 0 here.
    if (share_.sum) STOWAGE_RETURN_IF_ERROR(share_.sum(results));
    return Judge(results);
  }

  int64_t train_examples() const override { return std::ssize(split_.train); }
  int64_t tokens_per_step(size_t shape) const override {
    return batch_ * lengths_[shape];
  }
  std::string_view token_name() const override { return "tok"; }

 private:
  Evaluation Judge(const std::vector<double>& results) const {
    ClassCounts counts(classes_);
    double loss = 0;
    for (size_t i = 0; i < results.size() / 2; ++i) {
      counts.Add(static_cast<int64_t>(results[2 * i + 1]),
                 split_.labels[split_.held_out[i]], /*rank=*/0);
      loss += results[2 * i];
    }
    return {.loss = loss / static_cast<double>(results.size() / 2),
            .accuracy = counts.Value(Metric::kAccuracy),
            .metrics = {{MetricName(Metric::kF1Macro),
                         counts.Value(Metric::kF1Macro)}}};
  }

  size_t TextOf(int64_t step, int64_t row) {
    return order_.At((step - 1) * batch_ + row);
  }

  // Clears the batch for texts of `seq` tokens: all is padding, with one token per text.
  void Begin(int64_t batch, int64_t seq) {
    seq_ = seq;
    const auto size = static_cast<size_t>(batch * seq);
    std::fill_n(tokens_.begin(), size, 0);
    if (has_types_) std::fill_n(types_.begin(), size, 0);
    std::fill_n(text_lengths_.begin(), batch, 1);
    std::fill_n(labels_.begin(), batch, 0);
  }

  void Put(size_t text, int64_t row) {
    const JoinedTexts& joined = split_.texts[text];
    std::ranges::copy(joined.tokens, tokens_.begin() + row * seq_);
    if (has_types_) {
      std::ranges::copy(joined.types, types_.begin() + row * seq_);
    }
    text_lengths_[static_cast<size_t>(row)] =
        static_cast<int32_t>(joined.tokens.size());
    labels_[static_cast<size_t>(row)] = split_.labels[text];
  }

  Status Write(Runner& runner, const BatchPart& part) {
    const auto of = [&](const auto& values, int64_t each) {
      return std::span(values).subspan(static_cast<size_t>(part.first * each),
                                       static_cast<size_t>(part.count * each));
    };
    STOWAGE_RETURN_IF_ERROR(runner.Write("tokens", of(tokens_, seq_)));
    if (has_types_) {
      STOWAGE_RETURN_IF_ERROR(runner.Write("token_types", of(types_, seq_)));
    }
    STOWAGE_RETURN_IF_ERROR(runner.Write("lengths", of(text_lengths_, 1)));
    return runner.Write("labels", of(labels_, 1));
  }

  const LabeledSplit& split_;
  const int64_t classes_;
  const bool has_types_;
  const std::vector<int64_t>& lengths_;  // of sequences
  const int64_t held_out_batches_;
  const BatchPart part_;
  const int64_t batch_;
  int64_t seq_ = 0;  // of the current batch
  std::vector<int32_t> tokens_, types_;
  std::vector<int32_t> text_lengths_, labels_;
  TrainOrder order_;
};

}  // namespace

std::unique_ptr<Task> MakeClassifyTask(const Tuning& tuning, int64_t batch,
                                       uint64_t seed, const TaskShare& share) {
  return std::make_unique<ClassifyTask>(tuning, batch, seed, share);
}

}  // namespace stowage::tools
