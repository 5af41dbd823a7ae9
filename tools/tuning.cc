#include "tools/tuning.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "data/batching.h"
#include "data/text_data.h"
#include "formats/weights_file.h"
#include "nn/published_model.h"
#include "tools/command.h"
#include "tools/task.h"
#include "train/adapter_files.h"
#include "train/fine_tuning.h"

namespace stowage::tools {

namespace {

constexpr int64_t kUsualSeq = 256;    // tokens
constexpr int64_t kUsualPrompt = 16;  // tokens
constexpr size_t kMaxLengths = 6;

// The kind of data other than examples, for messages.
std::string_view KindOfData(const std::string& path) {
  return TokenShards::Reads(path) ? " has tokens alone" : " is a text";
}

// The preference of the objective; absent for "sft".
Result<std::optional<PreferenceRules>> ReadPreference(
    const TuningFlags& flags) {
  const auto objective = FindPreferenceObjective(flags.objective);
  if (!objective && !flags.objective.empty() && flags.objective != "sft") {
    return InvalidArgumentError(
        "[objective] there is no ", Quoted(flags.objective),
        "; expected sft, dpo, ipo, orpo, simpo, kto, classify or embed");
  }
  const bool is_simpo = objective == PreferenceObjective::kSimpo;
  const std::string name =
      flags.objective.empty() ? std::string("sft") : flags.objective;
  if (flags.beta && !objective) {
    return InvalidArgumentError(
        "[objective] --beta is of preferences, and the objective is ", name,
        "; leave it out, or give --objective dpo, ipo, orpo, simpo or kto");
  }
  if (flags.gamma && !is_simpo) {
    return InvalidArgumentError(
        "[objective] --gamma is of --objective simpo, and the objective is ",
        name, "; leave it out");
  }
  if (!objective) return std::optional<PreferenceRules>();
  if (!IsJsonLines(flags.data)) {
    return InvalidArgumentError(
        "[objective] ", name,
        " learns from the examples of a .jsonl file, and ", Quoted(flags.data),
        KindOfData(flags.data), "; expected JSON lines");
  }
  PreferenceRules rules{.objective = *objective,
                        .beta = flags.beta.value_or(UsualBeta(*objective))};
  if (flags.gamma) rules.gamma = *flags.gamma;
  STOWAGE_RETURN_IF_ERROR(CheckPreference(rules));
  return std::optional(rules);
}

ExampleKind KindOf(const std::optional<PreferenceRules>& preference) {
  if (!preference) return ExampleKind::kLearnt;
  return IsPaired(preference->objective) ? ExampleKind::kPairs
                                         : ExampleKind::kJudged;
}

Result<FineTuningOptions> ReadOptions(const TuningFlags& flags, DType dtype,
                                      bool has_examples) {
  FineTuningOptions options{.dtype = dtype};
  STOWAGE_ASSIGN_OR_RETURN(options.preference, ReadPreference(flags));
  options.weighted_targets = has_examples && !options.preference;
  if (flags.pack) {
    if (!has_examples) {
      return InvalidArgumentError(
          "[pack] --pack is for the examples of a .jsonl file, and ",
          Quoted(flags.data), KindOfData(flags.data),
          ", whose windows are full; leave it out");
    }
    if (options.preference) {
      return InvalidArgumentError(
          "[pack] --pack puts examples into one sequence, and those of "
          "--objective ",
          PreferenceObjectiveName(options.preference->objective),
          " are sequences of their own; leave it out");
    }
    options.packed = true;
  }
  STOWAGE_RETURN_IF_ERROR(ReadAdapterFlags(flags, nullptr, &options));
  return options;
}

// Reads the data of a language model.
Result<TuningData> ReadData(const TuningFlags& flags,
                            const ModelText& model_text,
                            const std::optional<PreferenceRules>& preference,
                            const Tokenizer& tokenizer, int64_t vocabulary,
                            int64_t seq) {
  if (TokenShards::Reads(flags.data)) {
    STOWAGE_ASSIGN_OR_RETURN(TokenShards shards,
                             TokenShards::Open(flags.data, vocabulary));
    return TuningData(std::make_shared<const TokenShards>(std::move(shards)));
  }
  const bool has_examples = IsJsonLines(flags.data);
  STOWAGE_ASSIGN_OR_RETURN(
      const std::string text,
      has_examples ? ReadFile(flags.data) : ReadTrainingText(flags.data));
  if (!has_examples) {
    int64_t without_token = 0;
    STOWAGE_ASSIGN_OR_RETURN(
        std::vector<int32_t> tokens,
        tokenizer.Encode(text, {.special = false,
                                .add_prefix = false,
                                .without_token = &without_token}));
    ReportLostBytes(tokenizer, without_token, Quoted(flags.data));
    STOWAGE_ASSIGN_OR_RETURN(
        TextData data,
        TextData::FromTokens(std::move(tokens), flags.data, seq));
    return TuningData(std::move(data));
  }
  STOWAGE_RETURN_IF_ERROR(CheckIsNoContainer(text, flags.data));
  const ExampleFormat format{
      .kind = KindOf(preference),
      .chat = model_text.chat ? &*model_text.chat : nullptr,
      .no_chat = model_text.no_chat,
      .end = model_text.end};
  STOWAGE_ASSIGN_OR_RETURN(TokenExamples examples,
                           ReadExamples(text, flags.data, tokenizer, format));
  const size_t lines =
      examples.size() / (format.kind == ExampleKind::kPairs ? 2 : 1);
  ListUnreadKeys(examples.unread_keys(), lines, flags.data);
  if (examples.same_answers() > 0) {
    std::cerr << WithoutControls(StrCat(
                     "[examples] of the ", lines, " pairs of ",
                     Quoted(flags.data), ", ", examples.same_answers(),
                     " have the same answer twice, of which neither is better"))
              << std::endl;
  }
  ReportLostBytes(tokenizer, examples.without_token(), Quoted(flags.data));
  if (model_text.end && *model_text.end >= vocabulary) {
    for (size_t i = 0; i < examples.size(); ++i) {
      if (examples.tokens(i).back() != *model_text.end) continue;
      return InvalidArgumentError("[finetune] ", Quoted(model_text.end_from),
                                  " has the \"eos_token_id\" ", *model_text.end,
                                  ", which texts end with; expected one below ",
                                  vocabulary,
                                  ", the model's vocabulary; correct it there");
    }
  }
  STOWAGE_ASSIGN_OR_RETURN(ExampleSplit split,
                           SplitExamples(std::move(examples), format.kind, seq,
                                         flags.too_long == "drop", flags.data));
  return TuningData(std::move(split));
}

// The default prompt of samples: the beginning of the validation set.
Result<std::vector<int32_t>> UsualPrompt(const TuningData& data) {
  if (const auto* const text = std::get_if<TextData>(&data)) {
    const auto tokens = text->held_out();
    const auto first = tokens.first(
        std::min(tokens.size(), static_cast<size_t>(kUsualPrompt)));
    return std::vector<int32_t>(first.begin(), first.end());
  }
  if (const auto* const shards = std::get_if<SharedShards>(&data)) {
    const auto& parts = (*shards)->held_out();
    const auto full = std::ranges::find_if(
        parts, [](const TokenShards::Part& part) { return part.tokens > 0; });
    if (full == parts.end()) return std::vector<int32_t>();
    TokenShards::Part first = *full;
    first.tokens = std::min(first.tokens, kUsualPrompt);
    std::vector<int32_t> tokens(static_cast<size_t>(first.tokens));
    STOWAGE_RETURN_IF_ERROR((*shards)->Read(first, tokens));
    return tokens;
  }
  const auto& split = std::get<ExampleSplit>(data);
  const Sequence first = split.Of(split.held_out.front(), 0);
  // Up to the beginning of the answer, or its first token.
  const auto learnt = first.learnt[0];
  const auto answer = std::find(learnt.begin() + 1, learnt.end(), 1);
  const auto tokens =
      first.tokens[0].first(static_cast<size_t>(answer - learnt.begin()));
  return std::vector<int32_t>(tokens.begin(), tokens.end());
}

}  // namespace

Status ReadAdapterFlags(const TuningFlags& flags, const EncoderNames* encoder,
                        FineTuningOptions* options) {
  if (flags.full) {
    options->lora.reset();
    return {};
  }
  if (flags.lora_plus) {
    options->lora_plus = *flags.lora_plus;
    const auto plus = static_cast<float>(options->lora_plus);
    if (!std::isfinite(plus) || plus <= 0) {
      return InvalidArgumentError("[lora-plus] is ", options->lora_plus,
                                  "; expected a finite number above 0");
    }
  }
  if (!flags.adapter.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(options->lora,
                             ReadAdapterRules(flags.adapter, encoder));
    return {};
  }
  options->pissa = flags.lora_init == "pissa";
  if (!options->pissa && !flags.lora_init.empty() &&
      flags.lora_init != "uniform") {
    return InvalidArgumentError("[lora-init] there is no ",
                                Quoted(flags.lora_init),
                                "; expected uniform or pissa");
  }
  options->lora->rank_stabilized = flags.rslora;
  options->lora->dora = flags.dora;
  options->lora->rank = flags.lora_rank;
  if (flags.lora_alpha) options->lora->alpha = *flags.lora_alpha;
  if (flags.lora_dropout) options->lora->dropout = *flags.lora_dropout;
  options->lora->targets = flags.lora_targets;
  return {};
}

void ListUnreadKeys(const std::map<std::string, int64_t>& unread,
                    size_t examples, const std::string& path) {
  constexpr size_t kMaxKeys = 8;
  if (unread.empty()) return;
  std::string keys;
  size_t listed = 0;
  for (const auto& [key, count] : unread) {
    if (listed++ == kMaxKeys) break;
    keys += StrCat(keys.empty() ? "" : ", ", Quoted(key), " of ", count);
  }
  if (unread.size() > kMaxKeys) {
    keys += StrCat(" and ", unread.size() - kMaxKeys, " more");
  }
  std::cerr << WithoutControls(StrCat("[examples] of the ", examples,
                                      " examples of ", Quoted(path),
                                      ", these keys are not read: ", keys))
            << std::endl;
}

Result<std::vector<int64_t>> ReadLengths(const std::string& text,
                                         const std::vector<int64_t>& train,
                                         const std::vector<int64_t>& held_out,
                                         int64_t seq) {
  if (text.empty()) return std::vector<int64_t>{seq};
  std::vector<int64_t> lengths;
  if (text == "auto") {
    lengths = ChooseLengths(train, kMaxLengths);
    // Validation inputs may be longer.
    lengths.front() = std::max(lengths.front(), std::ranges::max(held_out));
    return lengths;
  }
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    int64_t length = 0;
    const auto [stop, code] = std::from_chars(at, end, length);
    if (code != std::errc() || length < 1 || length > seq ||
        (stop != end && *stop != ',')) {
      return InvalidArgumentError(
          "[finetune] lengths ", Quoted(text),
          " are neither auto nor numbers from 1 to ", seq,
          ", the longest sequence, with commas between");
    }
    lengths.push_back(length);
    at = stop == end ? end : stop + 1;
  }
  lengths.push_back(seq);
  std::ranges::sort(lengths, std::greater());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

Result<Tokenizer> ReadTokenizerOf(const TuningFlags& flags,
                                  const FineTuning& model, int64_t seq) {
  if (seq < 1 || seq > model.base().max_seq()) {
    return InvalidArgumentError("[finetune] seq ", seq,
                                " is out of range; the model takes 1 to ",
                                model.base().max_seq(), " tokens");
  }
  STOWAGE_ASSIGN_OR_RETURN(
      Tokenizer tokenizer,
      ReadTokenizer(flags.tokenizer.empty() ? flags.weights : flags.tokenizer));
  if (tokenizer.size() > model.base().vocabulary()) {
    return InvalidArgumentError("[finetune] the tokenizer has ",
                                tokenizer.size(), " tokens, the model ",
                                model.base().vocabulary(),
                                "; give the --tokenizer of this model");
  }
  return tokenizer;
}

namespace {

// Checks that the options suit the objective.
Status CheckObjectiveFlags(const TuningFlags& flags) {
  const bool classifies = flags.objective == "classify";
  const bool embeds = flags.objective == "embed";
  const struct {
    const char* name;
    bool is_given;
    bool suits;
    std::string_view objectives;
  } given[] = {
      {"--hidden-dropout", flags.hidden_dropout.has_value(),
       classifies || embeds, "classify or embed"},
      {"--attention-dropout", flags.attention_dropout.has_value(),
       classifies || embeds, "classify or embed"},
      {"--classifier-dropout", flags.classifier_dropout.has_value(), classifies,
       "classify"},
      {"--pooling", !flags.pooling.empty(), embeds, "embed"},
      {"--similarity-scale", flags.similarity_scale.has_value(), embeds,
       "embed"},
      {"--symmetric", flags.symmetric, embeds, "embed"},
      {"--negatives", flags.negatives.has_value(), embeds, "embed"},
      {"--query-prompt", !flags.query_prompt.empty(), embeds, "embed"},
      {"--document-prompt", !flags.document_prompt.empty(), embeds, "embed"}};
  for (const auto& [name, is_given, suits, objectives] : given) {
    if (suits || !is_given) continue;
    return InvalidArgumentError("[objective] ", name, " is of --objective ",
                                objectives, "; leave it out");
  }
  return {};
}

// Checks that the objective suits the model.
Status CheckObjective(const TuningFlags& flags) {
  const bool classifies = flags.objective == "classify";
  STOWAGE_RETURN_IF_ERROR(CheckObjectiveFlags(flags));
  if (flags.objective == "embed") return {};  // any model does
  STOWAGE_ASSIGN_OR_RETURN(const WeightsFile file,
                           WeightsFile::Open(flags.weights));
  STOWAGE_ASSIGN_OR_RETURN(const PublishedModel model, DescribeModel(file));
  const bool is_encoder = std::holds_alternative<EncoderConfig>(model.config);
  if (is_encoder == classifies) return {};
  std::string architecture = model.family;
  if (file.config() != nullptr) {
    const auto named = file.config()->Text("architectures.0");
    if (named.ok()) architecture = *named;
  }
  return file.Fail(
      classifies
          ? StrCat("is of the architecture ", architecture,
                   ", which predicts tokens; --objective classify trains "
                   "encoders, as BertForSequenceClassification")
          : StrCat("is of the architecture ", architecture,
                   ", an encoder, which predicts no next token; it is trained "
                   "by --objective classify or embed"),
      ErrorCode::kUnsupported);
}

}  // namespace

Status CheckNoTokenFlags(const TuningFlags& flags) {
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
                                "--objective ",
                                flags.objective, " trains none; leave it out");
  }
  return {};
}

Result<TextTemplate> ReadTextTemplate(const TuningFlags& flags) {
  const std::string path = TokenizerFileOf(
      flags.tokenizer.empty() ? flags.weights : flags.tokenizer);
  if (!EndsWithAnyCase(path, ".json")) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[tokenizer] ", Quoted(path),
                        " does not say how texts are joined with special "
                        "tokens; --objective ",
                        flags.objective, " needs a tokenizer.json")};
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string json, ReadFile(path));
  return TextTemplate::Parse(json);
}

Result<Tuning> ReadTuning(const TuningFlags& flags, DType dtype,
                          std::optional<int64_t> asked_seq) {
  const std::string& too_long = flags.too_long;
  if (!too_long.empty() && too_long != "cut" && too_long != "drop") {
    return InvalidArgumentError("[finetune] too-long has no choice ",
                                Quoted(too_long), "; expected cut or drop");
  }
  if (flags.held_out_batches < 1) {
    return InvalidArgumentError("[finetune] held-out-batches ",
                                flags.held_out_batches, " is below 1");
  }
  STOWAGE_RETURN_IF_ERROR(CheckObjective(flags));
  if (flags.objective == "classify") {
    return ReadClassifierTuning(flags, dtype,
                                asked_seq.value_or(kUsualTextSeq));
  }
  if (flags.objective == "embed") {
    return ReadEmbeddingTuning(flags, dtype, asked_seq);
  }
  const int64_t seq = asked_seq.value_or(kUsualSeq);
  if (!too_long.empty() && !IsJsonLines(flags.data)) {
    return InvalidArgumentError("[finetune] --too-long ", too_long,
                                " is for the examples of a .jsonl file, and ",
                                Quoted(flags.data), KindOfData(flags.data),
                                "; leave it out");
  }
  Sampler sampler{.top_k = flags.top_k};
  if (flags.temperature) sampler.temperature = *flags.temperature;
  if (flags.top_p) sampler.top_p = *flags.top_p;
  STOWAGE_RETURN_IF_ERROR(CheckSampler(sampler));
  STOWAGE_ASSIGN_OR_RETURN(const FineTuningOptions options,
                           ReadOptions(flags, dtype, IsJsonLines(flags.data)));
  STOWAGE_ASSIGN_OR_RETURN(FineTuning model,
                           FineTuning::Open(flags.weights, options));
  STOWAGE_ASSIGN_OR_RETURN(Tokenizer tokenizer,
                           ReadTokenizerOf(flags, model, seq));
  const std::string& tokenizer_path =
      flags.tokenizer.empty() ? flags.weights : flags.tokenizer;
  STOWAGE_ASSIGN_OR_RETURN(
      ModelText model_text,
      ReadModelText(model.base().file(), tokenizer, tokenizer_path,
                    model.base().vocabulary()));
  if (flags.chats && !model_text.chat) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[finetune] --chat needs a chat template: ",
                        model_text.no_chat)};
  }
  STOWAGE_ASSIGN_OR_RETURN(
      auto data, ReadData(flags, model_text, options.preference, tokenizer,
                          model.base().vocabulary(), seq));
  std::vector<int64_t> lengths = {seq};
  if (const auto* const split = std::get_if<ExampleSplit>(&data)) {
    STOWAGE_ASSIGN_OR_RETURN(
        lengths, ReadLengths(flags.lengths, InputsOf(*split, split->train, seq),
                             InputsOf(*split, split->held_out, seq), seq));
  } else if (!flags.lengths.empty()) {
    return InvalidArgumentError(
        "[finetune] --lengths are for examples, in JSON lines, and ",
        Quoted(flags.data), KindOfData(flags.data),
        ", read in windows of one length; leave them out");
  }
  std::vector<int32_t> prompt;
  if (flags.prompt.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(prompt, UsualPrompt(data));
  } else {
    const auto prefix = tokenizer.prefix();
    prompt.assign(prefix.begin(), prefix.end());
    int64_t without_token = 0;
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<int32_t> tokens,
        tokenizer.Encode(flags.prompt, {.add_prefix = false,
                                        .without_token = &without_token}));
    ReportLostBytes(tokenizer, without_token, "--prompt");
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
    if (prompt.empty()) {
      return InvalidArgumentError("[prompt] the tokenizer has no token for ",
                                  Quoted(flags.prompt),
                                  "; give a text that it has tokens for");
    }
  }
  return Tuning{.model = std::move(model),
                .tokenizer = std::move(tokenizer),
                .ends = std::move(model_text.ends),
                .data = std::move(data),
                .lengths = std::move(lengths),
                .adapter = flags.adapter,
                .held_out_batches = flags.held_out_batches,
                .prompt = std::move(prompt),
                .sampler = sampler,
                .chat = std::move(model_text.chat),
                .jinja = std::move(model_text.jinja)};
}

}  // namespace stowage::tools
