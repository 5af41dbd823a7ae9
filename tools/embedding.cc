// stowage finetune --objective embed: reads the model and the queries with their documents.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "data/contrastive_texts.h"
#include "data/text_data.h"
#include "formats/weights_file.h"
#include "nn/contrastive.h"
#include "nn/published_model.h"
#include "text/text_template.h"
#include "tools/task.h"
#include "tools/tuning.h"
#include "train/fine_tuning.h"
#include "train/sentence_transformer.h"

namespace stowage::tools {
namespace {

Result<ContrastiveTexts> ReadQueries(const std::string& path) {
  if (!IsJsonLines(path)) {
    return InvalidArgumentError(
        "[objective] embed learns from queries and their documents, in JSON "
        "lines, and ",
        Quoted(path), " is no .jsonl file");
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  STOWAGE_RETURN_IF_ERROR(CheckIsText(bytes, path));
  STOWAGE_ASSIGN_OR_RETURN(ContrastiveTexts texts,
                           ReadContrastiveTexts(bytes, path));
  ListUnreadKeys(texts.unread_keys, texts.rows.size(), path);
  return texts;
}

// The settings beside the model, with those of the flags.
Result<SentenceTransformer> ReadSettings(const TuningFlags& flags) {
  STOWAGE_ASSIGN_OR_RETURN(const WeightsFile file,
                           WeightsFile::Open(flags.weights));
  STOWAGE_ASSIGN_OR_RETURN(const PublishedModel model, DescribeModel(file));
  const int64_t width =
      std::visit([](const auto& config) { return config.width; }, model.config);
  STOWAGE_ASSIGN_OR_RETURN(SentenceTransformer settings,
                           ReadSentenceTransformer(flags.weights, width));
  if (!settings.pooling) settings.pooling = Pooling::kMean;
  if (!flags.pooling.empty()) {
    settings.pooling = FindPooling(flags.pooling);
    if (!settings.pooling) {
      return InvalidArgumentError("[pooling] there is no ",
                                  Quoted(flags.pooling),
                                  "; expected mean, cls or lasttoken");
    }
  }
  if (!flags.query_prompt.empty()) {
    settings.prompts["query"] = flags.query_prompt;
  }
  if (!flags.document_prompt.empty()) {
    settings.prompts["document"] = flags.document_prompt;
  }
  for (const auto& [text, prompt] :
       {std::pair("queries", settings.QueryPrompt()),
        std::pair("documents", settings.DocumentPrompt())}) {
    if (settings.pools_prompts || prompt.empty()) continue;
    return Error{ErrorCode::kUnsupported,
                 StrCat("[embed] ", Quoted(flags.weights), " has the prompt ",
                        Quoted(prompt), " of ", text,
                        " and an \"include_prompt\" of false, which leaves it "
                        "out of the pooling; prompts that are pooled are "
                        "supported")};
  }
  return settings;
}

}  // namespace

Result<Tuning> ReadEmbeddingTuning(const TuningFlags& flags, DType dtype,
                                   std::optional<int64_t> asked_seq) {
  STOWAGE_RETURN_IF_ERROR(CheckNoTokenFlags(flags));
  STOWAGE_ASSIGN_OR_RETURN(SentenceTransformer settings, ReadSettings(flags));
  STOWAGE_ASSIGN_OR_RETURN(const ContrastiveTexts texts,
                           ReadQueries(flags.data));
  STOWAGE_ASSIGN_OR_RETURN(const int64_t negatives,
                           NegativesOf(texts, flags.negatives, flags.data));
  EmbeddingRules rules{.pooling = *settings.pooling,
                       .similarity = settings.similarity,
                       .symmetric = flags.symmetric,
                       .documents = 1 + negatives};
  if (flags.similarity_scale) rules.scale = *flags.similarity_scale;
  STOWAGE_RETURN_IF_ERROR(CheckEmbedding(rules));
  FineTuningOptions options{
      .dtype = dtype,
      .embedding = rules,
      .embedder = {.hidden_dropout = flags.hidden_dropout,
                   .attention_dropout = flags.attention_dropout}};
  STOWAGE_RETURN_IF_ERROR(ReadAdapterFlags(flags, nullptr, &options));
  STOWAGE_ASSIGN_OR_RETURN(FineTuning model,
                           FineTuning::Open(flags.weights, options));
  const int64_t usual = settings.max_seq.value_or(kUsualTextSeq);
  const int64_t seq =
      asked_seq.value_or(std::min(usual, model.base().max_seq()));
  // Longer texts would be truncated when the saved model is used.
  if (settings.max_seq) settings.max_seq = std::max(*settings.max_seq, seq);
  STOWAGE_ASSIGN_OR_RETURN(Tokenizer tokenizer,
                           ReadTokenizerOf(flags, model, seq));
  STOWAGE_ASSIGN_OR_RETURN(const TextTemplate joins, ReadTextTemplate(flags));
  STOWAGE_ASSIGN_OR_RETURN(
      ContrastiveSplit split,
      SplitContrastiveTexts(texts, tokenizer, joins,
                            {.seq = seq,
                             .drops = flags.too_long == "drop",
                             .negatives = negatives,
                             .query_prompt = settings.QueryPrompt(),
                             .document_prompt = settings.DocumentPrompt()},
                            flags.data));
  ReportLostBytes(tokenizer, split.without_token, Quoted(flags.data));
  STOWAGE_ASSIGN_OR_RETURN(
      std::vector<int64_t> lengths,
      ReadLengths(flags.lengths, LongestTexts(split, split.train),
                  LongestTexts(split, split.held_out), seq));
  return Tuning{.model = std::move(model),
                .tokenizer = std::move(tokenizer),
                .ends = {},
                .data = std::move(split),
                .lengths = std::move(lengths),
                .adapter = flags.adapter,
                .held_out_batches = flags.held_out_batches,
                .sentence_transformer = std::move(settings)};
}

}  // namespace stowage::tools
