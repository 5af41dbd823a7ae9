#ifndef STOWAGE_TOOLS_TUNING_H_
#define STOWAGE_TOOLS_TUNING_H_

// The published model of `stowage finetune`, its tokenizer and texts, and its data as tokens.
//
//   Result<Tuning> tuning = ReadTuning(flags, DType::kF32, /*seq=*/256);

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "data/contrastive_texts.h"
#include "data/example_split.h"
#include "data/labeled_texts.h"
#include "data/text_data.h"
#include "data/token_shards.h"
#include "formats/weights_file.h"
#include "text/text.h"
#include "text/text_template.h"
#include "train/fine_tuning.h"
#include "train/generation.h"
#include "train/sentence_transformer.h"

namespace stowage::tools {

using SharedShards = std::shared_ptr<const TokenShards>;
/// A text or files of tokens, from which windows are drawn; examples; labeled texts; queries and
/// documents.
using TuningData = std::variant<TextData, SharedShards, ExampleSplit,
                                LabeledSplit, ContrastiveSplit>;

struct Tuning {
  FineTuning model;
  Tokenizer tokenizer;
  /// Tokens that end a generated text: those of the model's files, and the one after an answer
  /// in the chat template.
  std::vector<int32_t> ends;
  TuningData data;
  /// Lengths of sequences in tokens, in descending order: a batch of examples takes the shortest
  /// that holds it.
  std::vector<int64_t> lengths;
  std::string adapter;  // the folder of the initial adapter; "" for none
  int64_t held_out_batches = 20;     // maximum batches of an evaluation
  std::vector<int32_t> prompt = {};  // of samples
  Sampler sampler = {};
  std::optional<ChatTemplate> chat = {};
  std::string jinja = {};  // ModelText::jinja

  /// The settings to save beside a model that embeds texts.
  SentenceTransformer sentence_transformer = {};

  /// Whether the model classifies or embeds texts; if neither, it predicts tokens.
  bool classifies() const { return model.classifier() != nullptr; }
  bool embeds() const { return model.base().embeds(); }
};

struct TuningFlags {
  std::string weights;
  std::string tokenizer;  // "": that of the weights
  std::string data;
  std::string
      objective;  // "sft", "dpo", "ipo", "orpo", "simpo", "kto", "classify", "embed"; empty: sft
  std::optional<double> hidden_dropout, attention_dropout, classifier_dropout;
  std::optional<double> beta, gamma;
  std::string pooling;  // "mean", "cls", "lasttoken"; empty: the model's
  std::optional<double> similarity_scale;
  bool symmetric = false;
  std::optional<int64_t> negatives;
  std::string query_prompt, document_prompt;  // empty: the model's
  int64_t lora_rank = 8;
  std::optional<double> lora_alpha, lora_dropout, lora_plus;
  bool rslora = false;
  bool dora = false;
  std::string lora_init;  // "uniform", "pissa"; empty: uniform
  bool pack = false;
  std::vector<std::string> lora_targets;
  bool full = false;
  std::string adapter;
  std::string lengths;   // "auto" or numbers; empty: the one of --seq
  std::string too_long;  // "cut", "drop"; empty: cut
  std::string prompt;
  std::optional<double> temperature, top_p;
  int64_t top_k = 0;
  bool chats = false;  // with the result
  int64_t held_out_batches = 20;
};

/// The default tokens of a text that is classified or embedded.
inline constexpr int64_t kUsualTextSeq = 128;

/// Reads model, tokenizer and data, for sequences of at most `seq` tokens, by default those usual
/// for the objective. Errors: those of FineTuning::Open, ReadTokenizer, TextData, TokenShards, ReadExamples and ReadAdapterRules;
/// kInvalidArgument for a tokenizer with more tokens than the model, contradictory options, and
/// a model that does not suit the objective.
Result<Tuning> ReadTuning(const TuningFlags& flags, DType dtype,
                          std::optional<int64_t> seq);

/// Error kInvalidArgument for flags of models that predict tokens, whose objective is another.
Status CheckNoTokenFlags(const TuningFlags& flags);

/// Sets the adapters of --full, --adapter and the other options of adapters. `encoder` is that
/// of a classifier, or null. Errors: those of ReadAdapterRules; kInvalidArgument for a rate of
/// LoRA+ that is not above 0.
Status ReadAdapterFlags(const TuningFlags& flags, const EncoderNames* encoder,
                        FineTuningOptions* options);

/// The model's tokenizer. Errors: those of ReadTokenizer; kInvalidArgument for more tokens than
/// the model has, and a seq that the model does not support.
Result<Tokenizer> ReadTokenizerOf(const TuningFlags& flags,
                                  const FineTuning& model, int64_t seq);

/// The lengths of --lengths for training and validation inputs of so many tokens. Error
/// kInvalidArgument: neither "auto" nor numbers up to `seq`.
Result<std::vector<int64_t>> ReadLengths(const std::string& text,
                                         const std::vector<int64_t>& train,
                                         const std::vector<int64_t>& held_out,
                                         int64_t seq);

/// Prints the ignored keys of the `examples` examples of `path`.
void ListUnreadKeys(const std::map<std::string, int64_t>& keys, size_t examples,
                    const std::string& path);

/// How the model's tokenizer.json joins texts with special tokens. Errors: kIo; kUnsupported for
/// another kind of tokenizer; those of TextTemplate::Parse.
Result<TextTemplate> ReadTextTemplate(const TuningFlags& flags);

/// ReadTuning for --objective classify (tools/classification.cc). Errors also of
/// ReadLabeledTexts, LabelNames, FindLabels and TextTemplate::Parse.
Result<Tuning> ReadClassifierTuning(const TuningFlags& flags, DType dtype,
                                    int64_t seq);

/// ReadTuning for --objective embed (tools/embedding.cc). Errors also of
/// ReadSentenceTransformer, ReadContrastiveTexts and SplitContrastiveTexts.
Result<Tuning> ReadEmbeddingTuning(const TuningFlags& flags, DType dtype,
                                   std::optional<int64_t> seq);

/// The special tokens and the chat template of a published model, read as transformers reads
/// them from chat_template.jinja, tokenizer_config.json, special_tokens_map.json, config.json
/// and generation_config.json, or from a GGUF file's header.
struct ModelText {
  /// The token after texts and completions: the tokenizer's eos_token, else the model's first
  /// eos_token_id, which may be beyond its vocabulary.
  std::optional<int32_t> end = {};
  std::string end_from = {};  // the file that defines `end`
  /// Tokens that end a generated text: all of these, and the one after an answer in the chat
  /// template.
  std::vector<int32_t> ends = {};
  std::optional<ChatTemplate> chat = {};
  std::string no_chat = {};  // the reason why `chat` is absent
  std::string jinja = {};    // the source of the template, supported or not
};

/// Reads them for a tokenizer read from `tokenizer_path`. A template that is not supported is
/// absent, with the reason in `no_chat`. Errors: kIo; kInvalidArgument for a damaged file, and
/// an eos_token that is no token of the tokenizer.
Result<ModelText> ReadModelText(const WeightsFile& weights,
                                const Tokenizer& tokenizer,
                                const std::string& tokenizer_path,
                                int64_t vocabulary);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TUNING_H_
