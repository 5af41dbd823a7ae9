#ifndef STOWAGE_TOOLS_TUNING_H_
#define STOWAGE_TOOLS_TUNING_H_

// Reads the inputs of `stowage finetune`: the published model, its tokenizer, special tokens and
// chat template, and the data as tokens.
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
/// The data: a text or files of tokens, from which windows are drawn, or examples, or labeled
/// texts, or queries and documents.
using TuningData = std::variant<TextData, SharedShards, ExampleSplit,
                                LabeledSplit, ContrastiveSplit>;

struct Tuning {
  FineTuning model;
  Tokenizer tokenizer;
  /// The tokens that end a generated text: the eos tokens that the model's files declare, and the
  /// token that follows an answer in the chat template.
  std::vector<int32_t> ends;
  TuningData data;
  /// The sequence lengths for which steps are planned, in tokens, in descending order. A batch of
  /// examples uses the shortest length in which all its examples fit.
  std::vector<int64_t> lengths;
  /// The folder of the initial adapter, or "" if there is none.
  std::string adapter;
  int64_t held_out_batches = 20;     // maximum batches of an evaluation
  std::vector<int32_t> prompt = {};  // the prompt of samples
  Sampler sampler = {};
  std::optional<ChatTemplate> chat = {};
  std::string jinja = {};  // ModelText::jinja

  /// The settings that are saved with the model if it embeds texts.
  SentenceTransformer sentence_transformer = {};

  /// classifies returns whether the model classifies texts, and embeds whether it embeds texts. A
  /// model that does neither predicts tokens.
  bool classifies() const { return model.classifier() != nullptr; }
  bool embeds() const { return model.base().embeds(); }
};

struct TuningFlags {
  std::string weights;
  /// If empty, the tokenizer in the folder of the weights.
  std::string tokenizer;
  std::string data;
  /// "sft" (also if empty), "dpo", "ipo", "orpo", "simpo", "kto", "classify" or "embed".
  std::string objective;
  std::optional<double> hidden_dropout, attention_dropout, classifier_dropout;
  std::optional<double> beta, gamma;
  /// "mean", "cls", "lasttoken"; if empty, the model's pooling.
  std::string pooling;
  std::optional<double> similarity_scale;
  bool symmetric = false;
  std::optional<int64_t> negatives;
  std::string query_prompt, document_prompt;  // if empty, the model's prompts
  int64_t lora_rank = 8;
  std::optional<double> lora_alpha, lora_dropout, lora_plus;
  bool rslora = false;
  bool dora = false;
  std::string lora_init;  // "uniform" (also if empty), "pissa"
  bool pack = false;
  std::vector<std::string> lora_targets;
  bool full = false;
  std::string adapter;
  std::string lengths;   // "auto" or numbers; if empty, only --seq
  std::string too_long;  // "cut" (also if empty), "drop"
  std::string prompt;
  std::optional<double> temperature, top_p;
  int64_t top_k = 0;
  bool chats = false;  // with the tuned model
  int64_t held_out_batches = 20;
};

/// The default number of tokens of a text that is classified or embedded.
inline constexpr int64_t kUsualTextSeq = 128;

/// Reads the model, the tokenizer and the data, for sequences of at most `seq` tokens. If `seq` is
/// absent, a default for the objective applies. Propagates errors of FineTuning::Open,
/// ReadTokenizer, TextData, TokenShards, ReadExamples and ReadAdapterRules. Returns
/// kInvalidArgument if the tokenizer has more tokens than the model, if options contradict each
/// other, or if the model does not suit the objective.
Result<Tuning> ReadTuning(const TuningFlags& flags, DType dtype,
                          std::optional<int64_t> seq);

/// Returns kInvalidArgument if a flag is given that applies only to models that predict tokens. For
/// the objectives "classify" and "embed".
Status CheckNoTokenFlags(const TuningFlags& flags);

/// Sets the adapters in `options` according to --full, --adapter and the other options of adapters.
/// `encoder` must be the encoder of a classifier, and null for other models. Propagates errors of
/// ReadAdapterRules. Returns kInvalidArgument if --lora-plus is not a finite number above 0, or if
/// --lora-init is unknown.
Status ReadAdapterFlags(const TuningFlags& flags, const EncoderNames* encoder,
                        FineTuningOptions* options);

/// Reads the tokenizer of `model`. Propagates errors of ReadTokenizer. Returns kInvalidArgument if
/// the tokenizer has more tokens than the model, or if `seq` is below 1 or above the maximum of the
/// model.
Result<Tokenizer> ReadTokenizerOf(const TuningFlags& flags,
                                  const FineTuning& model, int64_t seq);

/// Returns the sequence lengths for the value `text` of --lengths, in descending order. `train` and
/// `held_out` are the numbers of tokens of the training and validation inputs, from which "auto"
/// chooses lengths. A list of numbers is completed by `seq`, and "" means only `seq`. Returns
/// kInvalidArgument if `text` is none of these, or if a number is not in [1, seq].
Result<std::vector<int64_t>> ReadLengths(const std::string& text,
                                         const std::vector<int64_t>& train,
                                         const std::vector<int64_t>& held_out,
                                         int64_t seq);

/// Prints to stderr which keys of the examples in `path` are ignored, and in how many of the
/// `examples` examples each key occurs. Prints nothing if `keys` is empty.
void ListUnreadKeys(const std::map<std::string, int64_t>& keys, size_t examples,
                    const std::string& path);

/// Returns the template with which the model's tokenizer.json joins texts with special tokens
/// (text/text_template.h). Returns kIo if the file cannot be read, and kUnsupported if the
/// tokenizer is not a tokenizer.json. Propagates errors of TextTemplate::Parse.
Result<TextTemplate> ReadTextTemplate(const TuningFlags& flags);

/// Implements ReadTuning for --objective classify (tools/classification.cc). Also propagates errors
/// of ReadLabeledTexts, LabelNames, FindLabels and TextTemplate::Parse.
Result<Tuning> ReadClassifierTuning(const TuningFlags& flags, DType dtype,
                                    int64_t seq);

/// Implements ReadTuning for --objective embed (tools/embedding.cc). Also propagates errors of
/// ReadSentenceTransformer, ReadContrastiveTexts and SplitContrastiveTexts.
Result<Tuning> ReadEmbeddingTuning(const TuningFlags& flags, DType dtype,
                                   std::optional<int64_t> seq);

/// The special tokens and the chat template of a published model, read as transformers reads
/// them from chat_template.jinja, tokenizer_config.json, special_tokens_map.json, config.json
/// and generation_config.json, or from a GGUF file's header.
struct ModelText {
  /// The token that is appended to texts and completions. It is the tokenizer's eos_token or, if
  /// the tokenizer has none, the model's first eos_token_id, which may exceed the vocabulary.
  std::optional<int32_t> end = {};
  std::string end_from = {};  // the file that defines `end`
  /// The tokens that end a generated text: all eos tokens of the model, and the token that follows
  /// an answer in the chat template.
  std::vector<int32_t> ends = {};
  std::optional<ChatTemplate> chat = {};
  std::string no_chat = {};  // the reason why `chat` is absent
  std::string jinja = {};    // the source of the template, supported or not
};

/// Reads the special tokens and the chat template for a tokenizer that was read from
/// `tokenizer_path`. If there is no template or it is not supported, `chat` is absent and `no_chat`
/// contains the reason. Returns kIo if a file cannot be read. Returns kInvalidArgument if a file is
/// damaged, or if the eos_token is not a token of the tokenizer.
Result<ModelText> ReadModelText(const WeightsFile& weights,
                                const Tokenizer& tokenizer,
                                const std::string& tokenizer_path,
                                int64_t vocabulary);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TUNING_H_
