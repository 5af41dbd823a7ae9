#ifndef STOWAGE_TOOLS_TUNING_H_
#define STOWAGE_TOOLS_TUNING_H_

// What a run of `stowage finetune` has beside a training run of any other model: the
// published model, its tokenizer, and its data as tokens.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "formats/weights_file.h"
#include "nn/text_data.h"
#include "text/text.h"
#include "tools/example_split.h"
#include "train/fine_tuning.h"
#include "train/generation.h"

namespace stowage::tools {

// What the files of a published model say of its texts beside the tokenizer: how
// conversations are written and what texts end with. Read as transformers reads them, from
// chat_template.jinja, tokenizer_config.json, special_tokens_map.json, config.json and
// generation_config.json, or from a GGUF file's header.

struct ModelText {
  /// Behind texts and completions: the tokenizer's eos_token, else the model's first
  /// eos_token_id, which may be beyond its vocabulary.
  std::optional<int32_t> end = {};
  std::string end_from = {};  // the file that says so
  /// Tokens that nothing is written after: all of these, and the token that the chat
  /// template has behind an answer.
  std::vector<int32_t> ends = {};
  /// How conversations are written; else why there is no template.
  std::optional<ChatTemplate> chat = {};
  std::string no_chat = {};
  std::string jinja = {};  // the template as the files have it, read or not
};

/// Reads it for a tokenizer that came from `tokenizer_path`. A template that cannot be read
/// is none, and `no_chat` says why. Errors: kIo; kInvalidArgument for a damaged file and
/// an eos_token that is no token of the tokenizer.
Result<ModelText> ReadModelText(const WeightsFile& weights,
                                const Tokenizer& tokenizer,
                                const std::string& tokenizer_path,
                                int64_t vocabulary);

struct Tuning {
  FineTuning model;
  Tokenizer tokenizer;
  /// Tokens that nothing is written after: what the files say that texts end with, and
  /// what the chat template has behind an answer.
  std::vector<int32_t> ends;
  std::variant<TextData, ExampleSplit> data;
  /// Of sequences, in tokens, the longest first: a batch of examples takes the shortest
  /// that holds it.
  std::vector<int64_t> lengths;
  std::string adapter;               // a folder to begin with; empty: none
  int64_t held_out_batches = 20;     // to judge by, at most
  std::vector<int32_t> prompt = {};  // of samples
  Sampler sampler = {};
  std::optional<ChatTemplate> chat = {};  // how its conversations are written
  std::string jinja = {};                 // ModelText::jinja
};

struct TuningFlags {
  std::string weights;
  std::string tokenizer;  // empty: that of the weights
  std::string data;
  std::string
      objective;  // "sft", "dpo", "ipo", "orpo", "simpo", "kto"; empty: sft
  std::optional<double> beta, gamma;
  int64_t lora_rank = 8;
  std::optional<double> lora_alpha, lora_dropout, lora_plus;
  bool rslora = false;
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
/// are read. 0 of a text.
struct Positions {
  int64_t computed = 0, if_padded = 0, tokens = 0;
};
Positions CountPositions(const Tuning& tuning);

/// Opens all of it, for sequences of at most `seq` tokens and an element type. Errors: those of
/// FineTuning::Open, ReadTokenizer, TextData, ReadExamples and ReadAdapterRules; a
/// tokenizer with more tokens than the model; options that contradict each other.
Result<Tuning> ReadTuning(const TuningFlags& flags, DType dtype, int64_t seq);

/// Lines on dropouts that are not applied, and on what became of examples.
std::string TuningText(const Tuning& tuning);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TUNING_H_
