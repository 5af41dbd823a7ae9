// Reads the model and the texts of `stowage finetune --objective classify`.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "data/labeled_texts.h"
#include "data/training_text.h"
#include "formats/weights_file.h"
#include "nn/published_model.h"
#include "text/text_template.h"
#include "text/tokenizer_file.h"
#include "tools/task.h"
#include "tools/tuning.h"

namespace stowage::tools {
namespace {

Status CheckClassifierFlags(const TuningFlags& flags) {
  const std::pair<std::string_view, bool> others[] = {
      {"--pack", flags.pack},
      {"--beta", flags.beta.has_value()},
      {"--gamma", flags.gamma.has_value()},
      {"--prompt", !flags.prompt.empty()},
      {"--temperature", flags.temperature.has_value()},
      {"--top-k", flags.top_k != 0},
      {"--top-p", flags.top_p.has_value()},
      {"--chat", flags.chats}};
  for (const auto& [name, is_given] : others) {
    if (!is_given) continue;
    return InvalidArgumentError("[objective] ", name,
                                " is for models that predict tokens, and "
                                "--objective classify trains none; leave it "
                                "out");
  }
  return {};
}

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

Result<TextTemplate> ReadTemplate(const TuningFlags& flags) {
  const std::string path = TokenizerFileOf(
      flags.tokenizer.empty() ? flags.weights : flags.tokenizer);
  if (!EndsWithAnyCase(path, ".json")) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[tokenizer] ", Quoted(path),
                        " does not say how texts are joined with special "
                        "tokens; --objective classify needs a tokenizer.json")};
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string json, ReadFile(path));
  return TextTemplate::Parse(json);
}

}  // namespace

Result<Tuning> ReadClassifierTuning(const TuningFlags& flags, DType dtype,
                                    int64_t seq) {
  STOWAGE_RETURN_IF_ERROR(CheckClassifierFlags(flags));
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
  STOWAGE_ASSIGN_OR_RETURN(const TextTemplate joins, ReadTemplate(flags));
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

}  // namespace stowage::tools
