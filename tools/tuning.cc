#include "tools/tuning.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/input_file.h"
#include "base/strings.h"
#include "formats/gguf.h"
#include "formats/json_values.h"
#include "tools/command.h"
#include "tools/task.h"
#include "train/adapter_files.h"
#include "train/fine_tuning.h"

namespace stowage::tools {

namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The folder in which files of a model or a tokenizer stand beside it; empty beside a GGUF
// file, which has all in itself.
std::optional<fs::path> FolderOfFile(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return fs::path(path);
  const fs::path file(path);
  if (file.extension() == ".json" || file.extension() == ".safetensors") {
    return file.parent_path();
  }
  return {};
}

// The values of a file of the folder; none without it.
Result<JsonValues> ReadJson(const std::optional<fs::path>& folder,
                            const char* name) {
  if (!folder || !Exists(*folder / name)) return JsonValues();
  STOWAGE_ASSIGN_OR_RETURN(const std::string text,
                           ReadFile((*folder / name).string()));
  auto values = JsonValues::Parse(text);
  if (values.ok()) return values;
  return InvalidArgumentError("[finetune] ", Quoted((*folder / name).string()),
                              " is damaged: ", values.error().message);
}

// The special tokens by their names in templates, as transformers collects them.
Result<ChatTemplate::Tokens> TokensOf(const std::optional<fs::path>& folder) {
  constexpr std::array<const char*, 7> kNames = {
      "bos_token", "eos_token", "unk_token", "sep_token",
      "pad_token", "cls_token", "mask_token"};
  STOWAGE_ASSIGN_OR_RETURN(const JsonValues config,
                           ReadJson(folder, "tokenizer_config.json"));
  JsonValues map;
  if (!config.HasBelow("added_tokens_decoder")) {
    STOWAGE_ASSIGN_OR_RETURN(map, ReadJson(folder, "special_tokens_map.json"));
  }
  ChatTemplate::Tokens tokens;
  for (const char* const name : kNames) {
    for (const JsonValues* const file : {&std::as_const(map), &config}) {
      auto text = file->Text(name);
      if (!text.ok()) text = file->Text(StrCat(name, ".content"));
      if (!text.ok()) continue;
      tokens.emplace_back(name, *text);
      break;
    }
  }
  return tokens;
}

// The special tokens that a GGUF file has by their ids.
ChatTemplate::Tokens TokensOf(const GgufHeader& header,
                              const Tokenizer& tokenizer) {
  constexpr std::array<std::array<std::string_view, 2>, 4> kNames = {
      {{"bos_token", "bos_token_id"},
       {"eos_token", "eos_token_id"},
       {"unk_token", "unknown_token_id"},
       {"pad_token", "padding_token_id"}}};
  ChatTemplate::Tokens tokens;
  for (const auto& [name, key] : kNames) {
    const auto id = header.Int(StrCat("tokenizer.ggml.", key));
    if (!id.ok() || *id < 0 || *id >= tokenizer.size()) continue;
    const int32_t token = static_cast<int32_t>(*id);
    const auto text = tokenizer.Decode({&token, 1});
    if (text.ok()) tokens.emplace_back(name, *text);
  }
  return tokens;
}

// A template by itself, in a list of named ones or in an object of them.
Result<std::string> TemplateIn(const JsonValues& values) {
  const auto alone = values.Text("chat_template");
  if (alone.ok()) return alone;
  const auto named = values.Text("chat_template.default");
  if (named.ok()) return named;
  std::string names;
  for (int i = 0;; ++i) {
    const auto name = values.Text(StrCat("chat_template.", i, ".name"));
    if (!name.ok()) break;
    if (*name == "default") {
      return values.Text(StrCat("chat_template.", i, ".template"));
    }
    names += StrCat(names.empty() ? "" : ", ", Quoted(*name));
  }
  if (names.empty() && alone.error().code == ErrorCode::kInvalidArgument) {
    return Error{ErrorCode::kUnsupported,
                 "the model has a \"chat_template\" that is neither a text nor "
                 "a list of named ones"};
  }
  if (names.empty()) return alone;
  return Error{ErrorCode::kUnsupported,
               StrCat("the model has a list of chat templates, ", names,
                      ", and none of them is \"default\"")};
}

// Error kNotFound where there is none.
Result<std::string> TemplateOf(const std::optional<fs::path>& folder) {
  if (folder && Exists(*folder / "chat_template.jinja")) {
    return ReadFile((*folder / "chat_template.jinja").string());
  }
  Error none{ErrorCode::kNotFound, "the model has no chat template"};
  for (const char* const name :
       {"tokenizer_config.json", "chat_template.json"}) {
    STOWAGE_ASSIGN_OR_RETURN(const JsonValues values, ReadJson(folder, name));
    auto text = TemplateIn(values);
    if (text.ok()) return text;
    if (text.error().code == ErrorCode::kUnsupported) none = text.error();
  }
  return none;
}

Result<std::string> FindTemplate(const WeightsFile& weights,
                                 const std::optional<fs::path>& tokenizer) {
  if (weights.gguf() != nullptr) {
    const auto text = weights.gguf()->Text("tokenizer.chat_template");
    if (text.ok()) return std::string(*text);
  }
  auto text = TemplateOf(FolderOfFile(weights.path()));
  if (text.ok()) return text;
  auto other = TemplateOf(tokenizer);
  return other.ok() ? other : text;
}

// Takes an id that a file has for the end of texts; the first is put behind them. One
// below 0 stands for none.
void AddEnd(int64_t id, const std::string& from, int64_t vocabulary,
            ModelText* text) {
  if (id < 0 || id >= kMaxTokens) return;
  const auto token = static_cast<int32_t>(id);
  if (!text->end) {
    text->end = token;
    text->end_from = from;
  }
  if (id < vocabulary) text->ends.push_back(token);
}

// The ids that a file has as "eos_token_id", one or a list of them. Error: one that is no
// token's number.
Status AddEnds(const std::string& from, const JsonValues& values,
               int64_t vocabulary, ModelText* text) {
  const auto add = [&](const std::string& name) -> Status {
    const auto id = values.Int(name);
    if (!id.ok() || *id >= kMaxTokens) {
      return InvalidArgumentError(
          "[tokens] ", Quoted(from), " has an ", Quoted(name),
          id.ok() ? StrCat(" of ", *id) : " that is no whole number",
          "; expected a token below ", vocabulary, ", or -1 for none");
    }
    AddEnd(*id, from, vocabulary, text);
    return {};
  };
  if (values.Has("eos_token_id")) return add("eos_token_id");
  for (int64_t i = 0;; ++i) {
    const std::string name = StrCat("eos_token_id.", i);
    if (!values.Has(name)) return {};
    STOWAGE_RETURN_IF_ERROR(add(name));
  }
}

// The token of an answer's end, which need not be among the ends of texts.
std::optional<int32_t> EndOfAnswer(const ChatTemplate& chat,
                                   const Tokenizer& tokenizer) {
  const auto after = chat.AfterAnswer();
  if (!after.ok()) return {};
  const auto tokens =
      tokenizer.Encode(*after, {.special = true, .add_prefix = false});
  if (!tokens.ok() || tokens->empty()) return {};
  const auto text = tokenizer.Decode(std::span(*tokens).first(1));
  if (!text.ok()) return {};
  return tokenizer.FindAdded(*text);
}

}  // namespace

Result<ModelText> ReadModelText(const WeightsFile& weights,
                                const Tokenizer& tokenizer,
                                const std::string& tokenizer_path,
                                int64_t vocabulary) {
  ModelText text;
  const auto folder = FolderOfFile(weights.path());
  const auto tokenizer_folder = FolderOfFile(tokenizer_path);
  ChatTemplate::Tokens tokens;
  if (weights.gguf() != nullptr) {
    const auto end = weights.gguf()->Int("tokenizer.ggml.eos_token_id");
    if (end.ok()) AddEnd(*end, weights.path(), vocabulary, &text);
    tokens = TokensOf(*weights.gguf(), tokenizer);
  }
  if (tokenizer_folder) {
    STOWAGE_ASSIGN_OR_RETURN(auto named, TokensOf(tokenizer_folder));
    if (!named.empty()) tokens = std::move(named);
  }
  if (weights.config() != nullptr) {
    STOWAGE_RETURN_IF_ERROR(
        AddEnds("config.json", *weights.config(), vocabulary, &text));
  }
  STOWAGE_ASSIGN_OR_RETURN(const JsonValues generation,
                           ReadJson(folder, "generation_config.json"));
  STOWAGE_RETURN_IF_ERROR(
      AddEnds("generation_config.json", generation, vocabulary, &text));
  for (const auto& [name, token] : tokens) {
    if (name != "eos_token") continue;
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<int32_t> ids,
        tokenizer.Encode(token, {.special = true, .add_prefix = false}));
    if (ids.size() != 1) {
      return InvalidArgumentError(
          "[finetune] the \"eos_token\" ", Quoted(token), " of ",
          Quoted(tokenizer_path),
          " is no token of the tokenizer; expected one that "
          "it has, as texts end with it");
    }
    text.end = ids.front();
    text.end_from = tokenizer_path;
    text.ends.push_back(ids.front());
  }
  const auto jinja = FindTemplate(weights, tokenizer_folder);
  if (!jinja.ok()) {
    if (jinja.error().code == ErrorCode::kInvalidArgument) return jinja.error();
    text.no_chat = jinja.error().message;
    return text;
  }
  text.jinja = *jinja;
  auto chat = ChatTemplate::Parse(*jinja, std::move(tokens));
  if (!chat.ok()) {
    text.no_chat = chat.error().message;
    return text;
  }
  if (const auto end = EndOfAnswer(*chat, tokenizer)) {
    text.ends.push_back(*end);
  }
  text.chat = *std::move(chat);
  return text;
}

namespace {

constexpr int64_t kUsualPrompt = 16;  // tokens
constexpr size_t kMaxLengths = 6;

// "sft" is none.
Result<std::optional<PreferenceRules>> ReadPreference(
    const TuningFlags& flags) {
  const auto objective = FindPreferenceObjective(flags.objective);
  if (!objective && !flags.objective.empty() && flags.objective != "sft") {
    return InvalidArgumentError("[objective] there is no ",
                                Quoted(flags.objective),
                                "; expected sft, dpo, ipo, orpo, simpo or kto");
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
        " is a text; expected JSON lines");
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
          Quoted(flags.data),
          " is a text, whose windows are full; leave it "
          "out");
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
  if (flags.full) {
    options.lora.reset();
    return options;
  }
  if (flags.lora_plus) {
    options.lora_plus = *flags.lora_plus;
    const auto plus = static_cast<float>(options.lora_plus);
    if (!std::isfinite(plus) || plus <= 0) {
      return InvalidArgumentError("[lora-plus] is ", options.lora_plus,
                                  "; expected a finite number above 0");
    }
  }
  if (!flags.adapter.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(options.lora, ReadAdapterRules(flags.adapter));
    return options;
  }
  options.lora->rank_stabilized = flags.rslora;
  options.lora->rank = flags.lora_rank;
  if (flags.lora_alpha) options.lora->alpha = *flags.lora_alpha;
  if (flags.lora_dropout) options.lora->dropout = *flags.lora_dropout;
  options.lora->targets = flags.lora_targets;
  return options;
}

// Of so many lines.
void ListUnreadKeys(const TokenExamples& examples, size_t lines,
                    const std::string& path) {
  constexpr size_t kMaxKeys = 8;
  if (examples.unread_keys().empty()) return;
  std::string keys;
  size_t listed = 0;
  for (const auto& [key, count] : examples.unread_keys()) {
    if (listed++ == kMaxKeys) break;
    keys += StrCat(keys.empty() ? "" : ", ", Quoted(key), " of ", count);
  }
  if (examples.unread_keys().size() > kMaxKeys) {
    keys += StrCat(" and ", examples.unread_keys().size() - kMaxKeys, " more");
  }
  std::cerr << WithoutControls(StrCat("[examples] of the ", lines,
                                      " examples of ", Quoted(path),
                                      ", these keys are not read: ", keys))
            << std::endl;
}

Result<std::variant<TextData, ExampleSplit>> ReadData(
    const TuningFlags& flags, const ModelText& model_text,
    const std::optional<PreferenceRules>& preference,
    const Tokenizer& tokenizer, int64_t vocabulary, int64_t seq) {
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
    return std::variant<TextData, ExampleSplit>(std::move(data));
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
  ListUnreadKeys(examples, lines, flags.data);
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
  return std::variant<TextData, ExampleSplit>(std::move(split));
}

// "128,256" or "auto".
Result<std::vector<int64_t>> ReadLengths(const std::string& text,
                                         const ExampleSplit& split,
                                         int64_t seq) {
  if (text.empty()) return std::vector<int64_t>{seq};
  std::vector<int64_t> lengths;
  if (text == "auto") {
    lengths = ChooseLengths(InputsOf(split, split.train, seq), kMaxLengths);
    // What is held out may be longer.
    lengths.front() =
        std::max(lengths.front(),
                 std::ranges::max(InputsOf(split, split.held_out, seq)));
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

// What samples go on from, where no prompt is given: how the held-out part begins.
std::vector<int32_t> UsualPrompt(
    const std::variant<TextData, ExampleSplit>& data) {
  std::span<const int32_t> tokens;
  if (const auto* const text = std::get_if<TextData>(&data)) {
    tokens = text->held_out();
    tokens = tokens.first(
        std::min(tokens.size(), static_cast<size_t>(kUsualPrompt)));
  } else {
    const auto& split = std::get<ExampleSplit>(data);
    const Sequence first = split.Of(split.held_out.front(), 0);
    tokens = first.tokens[0];
    // Up to where the answer begins, or its first token.
    const auto learnt = first.learnt[0];
    const auto answer = std::find(learnt.begin() + 1, learnt.end(), 1);
    tokens = tokens.first(static_cast<size_t>(answer - learnt.begin()));
  }
  return {tokens.begin(), tokens.end()};
}

}  // namespace

Result<Tuning> ReadTuning(const TuningFlags& flags, DType dtype, int64_t seq) {
  const std::string& too_long = flags.too_long;
  if (!too_long.empty() && too_long != "cut" && too_long != "drop") {
    return InvalidArgumentError("[finetune] too-long has no choice ",
                                Quoted(too_long), "; expected cut or drop");
  }
  if (!too_long.empty() && !IsJsonLines(flags.data)) {
    return InvalidArgumentError("[finetune] --too-long ", too_long,
                                " is for the examples of a .jsonl file, and ",
                                Quoted(flags.data), " is a text; leave it out");
  }
  if (flags.held_out_batches < 1) {
    return InvalidArgumentError("[finetune] held-out-batches ",
                                flags.held_out_batches, " is below 1");
  }
  Sampler sampler{.top_k = flags.top_k};
  if (flags.temperature) sampler.temperature = *flags.temperature;
  if (flags.top_p) sampler.top_p = *flags.top_p;
  STOWAGE_RETURN_IF_ERROR(CheckSampler(sampler));
  STOWAGE_ASSIGN_OR_RETURN(const FineTuningOptions options,
                           ReadOptions(flags, dtype, IsJsonLines(flags.data)));
  STOWAGE_ASSIGN_OR_RETURN(FineTuning model,
                           FineTuning::Open(flags.weights, options));
  if (seq < 1 || seq > model.base().max_seq()) {
    return InvalidArgumentError("[finetune] seq ", seq,
                                " is out of range; the model takes 1 to ",
                                model.base().max_seq(), " tokens");
  }
  const std::string tokenizer_path =
      flags.tokenizer.empty() ? flags.weights : flags.tokenizer;
  STOWAGE_ASSIGN_OR_RETURN(Tokenizer tokenizer, ReadTokenizer(tokenizer_path));
  if (tokenizer.size() > model.base().vocabulary()) {
    return InvalidArgumentError("[finetune] the tokenizer has ",
                                tokenizer.size(), " tokens, the model ",
                                model.base().vocabulary(),
                                "; give the --tokenizer of this model");
  }
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
    STOWAGE_ASSIGN_OR_RETURN(lengths, ReadLengths(flags.lengths, *split, seq));
  } else if (!flags.lengths.empty()) {
    return InvalidArgumentError(
        "[finetune] --lengths are for examples, in JSON lines; a text is read "
        "in windows "
        "of one length");
  }
  std::vector<int32_t> prompt;
  if (flags.prompt.empty()) {
    prompt = UsualPrompt(data);
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

Positions CountPositions(const Tuning& tuning) {
  Positions positions;
  const auto* const split = std::get_if<ExampleSplit>(&tuning.data);
  if (split == nullptr) return positions;
  const int64_t longest = tuning.lengths.front();
  for (const int64_t input : InputsOf(*split, split->train, longest)) {
    positions.computed +=
        split->sequences() *
        tuning.lengths[ShortestThatHolds(tuning.lengths, input)];
    positions.if_padded += split->sequences() * longest;
  }
  for (const size_t example : split->train) {
    for (int which = 0; which < split->sequences(); ++which) {
      positions.tokens +=
          std::min(split->Of(example, which).size() - 1, longest);
    }
  }
  if (tuning.model.options().packed) {
    positions.computed =
        longest * std::ssize(PackExamples(*split, split->train));
  }
  return positions;
}

std::string TuningText(const Tuning& tuning) {
  std::string text;
  if (const std::string& rates = tuning.model.base().model().dropouts;
      !rates.empty()) {
    text = StrCat("finetune: config.json trains with ", rates,
                  ", which is not applied here; --lora-dropout is\n");
  }
  const auto* const split = std::get_if<ExampleSplit>(&tuning.data);
  if (split == nullptr) return text;
  text += StrCat("finetune: ", split->size(),
                 split->kind == ExampleKind::kPairs ? " pairs of answers, "
                                                    : " examples, ",
                 split->cut, " cut and ", split->dropped, " dropped at ",
                 split->seq, " tokens; ", split->held_out.size(),
                 " are held out\n");
  if (split->cut_with_partner > 0) {
    text += StrCat("finetune: ", split->cut_with_partner,
                   " prompts with the answer to another one are cut\n");
  }
  if (tuning.model.options().packed) {
    const Positions positions = CountPositions(tuning);
    return text + StrCat("finetune: packed into ",
                         positions.computed / tuning.lengths.front(),
                         " sequences: a pass has ", positions.computed,
                         " positions for ", positions.tokens, " tokens, ",
                         positions.if_padded, " if each were a sequence\n");
  }
  if (tuning.lengths.size() == 1) return text;
  const Positions positions = CountPositions(tuning);
  std::string lengths;
  for (const int64_t length : tuning.lengths) {
    lengths += StrCat(lengths.empty() ? "" : ", ", length);
  }
  return text + StrCat("finetune: sequences of ", lengths,
                       " tokens: a pass has ", positions.computed,
                       " positions, ", positions.if_padded,
                       " if all were as long as the "
                       "longest\n");
}

}  // namespace stowage::tools
