#ifndef STOWAGE_TOOLS_TUNING_H_
#define STOWAGE_TOOLS_TUNING_H_

// What a run of `stowage finetune` has beside a training run of any other model: the
// published model, its tokenizer, and its data as tokens.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "data/example_split.h"
#include "data/labeled_texts.h"
#include "data/text_data.h"
#include "data/token_shards.h"
#include "text/text.h"
#include "train/fine_tuning.h"
#include "train/generation.h"

namespace stowage::tools {

using SharedShards = std::shared_ptr<const TokenShards>;
/// Windows are drawn from a text or from files of tokens.
using TuningData =
    std::variant<TextData, SharedShards, ExampleSplit, LabeledSplit>;

struct Tuning {
  FineTuning model;
  Tokenizer tokenizer;
  /// Tokens that nothing is written after: what the files say that texts end with, and
  /// what the chat template has behind an answer.
  std::vector<int32_t> ends;
  TuningData data;
  /// Of sequences, in tokens, the longest first: a batch of examples takes the shortest
  /// that holds it.
  std::vector<int64_t> lengths;
  std::string adapter;               // a folder to begin with; empty: none
  int64_t held_out_batches = 20;     // to judge by, at most
  std::vector<int32_t> prompt = {};  // of samples
  Sampler sampler = {};
  std::optional<ChatTemplate> chat = {};  // how its conversations are written
  std::string jinja = {};                 // ModelText::jinja

  /// Whether the model classifies texts.
  bool classifies() const { return model.base().encoder() != nullptr; }
};

struct TuningFlags {
  std::string weights;
  std::string tokenizer;  // empty: that of the weights
  std::string data;
  std::string
      objective;  // "sft", "dpo", "ipo", "orpo", "simpo", "kto", "classify"; empty: sft
  std::optional<double> hidden_dropout, attention_dropout, classifier_dropout;
  std::optional<double> beta, gamma;
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

/// Positions of a pass over the train part: each example as long as the shortest length
/// that holds it, or packed; as many if all were as long as the longest; and tokens that
/// are read. 0 of a text and of files of tokens.
struct Positions {
  int64_t computed = 0, if_padded = 0, tokens = 0;
};
Positions CountPositions(const Tuning& tuning);

/// Opens all of it, for sequences of at most `seq` tokens and an element type. Errors: those of
/// FineTuning::Open, ReadTokenizer, TextData, TokenShards, ReadExamples and ReadAdapterRules;
/// a tokenizer with more tokens than the model; options that contradict each other; a model
/// that the objective does not suit.
Result<Tuning> ReadTuning(const TuningFlags& flags, DType dtype, int64_t seq);

// Parts of ReadTuning that language models and classifiers share.

/// Sets the adapters that --full, --adapter and the options of adapters ask for. `encoder` is
/// that of a classifier, or null. Errors: those of ReadAdapterRules; a rate of LoRA+ that is no number
/// above 0.
Status ReadAdapterFlags(const TuningFlags& flags, const EncoderNames* encoder,
                        FineTuningOptions* options);

/// The model's tokenizer. Errors: those of ReadTokenizer; more tokens than the model has; a
/// seq that is none of the model's.
Result<Tokenizer> ReadTokenizerOf(const TuningFlags& flags,
                                  const FineTuning& model, int64_t seq);

/// The lengths that the option asks for, for inputs of so many tokens to train on and to
/// judge by. Error kInvalidArgument: neither auto nor numbers up to `seq`.
Result<std::vector<int64_t>> ReadLengths(const std::string& text,
                                         const std::vector<int64_t>& train,
                                         const std::vector<int64_t>& held_out,
                                         int64_t seq);

/// Prints the keys of the examples of `path`, so many, that are not read.
void ListUnreadKeys(const std::map<std::string, int64_t>& keys, size_t examples,
                    const std::string& path);

/// As ReadTuning for --objective classify (tools/classifier_tuning.cc). Further errors: those
/// of ReadLabeledTexts, LabelNames, FindLabels and TextTemplate::Parse.
Result<Tuning> ReadClassifierTuning(const TuningFlags& flags, DType dtype,
                                    int64_t seq);

/// Lines on dropouts that are not applied, and on what became of examples.
std::string TuningText(const Tuning& tuning);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TUNING_H_
