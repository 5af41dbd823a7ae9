#include "tools/sample.h"

#include <iostream>
#include <span>
#include <string>
#include <utility>

#include "base/strings.h"
#include "data/text_data.h"
#include "data/token_shards.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "text/text.h"
#include "tools/progress.h"
#include "tools/task.h"
#include "tools/tuning.h"
#include "train/generation.h"

namespace stowage::tools {
namespace {

Generator GeneratorOf(Training& training) {
  return Generator(*training.Find("generate"), training.Find("prefill"));
}

Sampler SamplerOf(const StepSpec& spec) {
  return spec.tuning ? spec.tuning->sampler : Sampler();
}

// The tokens that follow `text`.
Result<std::vector<int32_t>> Write(Generator& generator,
                                   std::span<const int32_t> text,
                                   GenerationOptions options,
                                   WorkProgress& progress) {
  options.on_token = [&, length = options.length](int64_t drawn) {
    progress.Show(drawn, length);
  };
  return generator.Continue(text, options);
}

Result<std::string> Sample(const TrainFlags& flags, const StepSpec& spec,
                           Training& training) {
  Generator generator = GeneratorOf(training);
  GenerationOptions options{.length = flags.sample_length(),
                            .sampler = SamplerOf(spec),
                            .seed = static_cast<uint64_t>(flags.seed)};
  const bool reads_characters = !spec.tuning && !spec.tokenizer;
  WorkProgress writing("writing", reads_characters ? "characters" : "tokens");
  if (reads_characters) {
    const std::vector<int32_t> newline = {0};  // the prompt
    options.tokens = kTextCharacters;
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<int32_t> text,
                             Write(generator, newline, options, writing));
    return DecodeText(text);
  }
  if (spec.tokenizer) {
    const Tokenizer& tokenizer = *spec.tokenizer;
    options.tokens = tokenizer.size();
    options.never = tokenizer.unused();
    STOWAGE_ASSIGN_OR_RETURN(
        std::vector<int32_t> newline,
        tokenizer.Encode("\n", {.special = false, .add_prefix = false}));
    if (newline.empty()) newline = {0};  // there is none
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<int32_t> text,
                             Write(generator, newline, options, writing));
    return tokenizer.Decode(text, {.skip_special = true});
  }
  const Tuning& tuning = *spec.tuning;
  options.tokens = tuning.tokenizer.size();
  options.never = tuning.tokenizer.unused();
  options.ends = tuning.ends;
  STOWAGE_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                           Write(generator, tuning.prompt, options, writing));
  tokens.insert(tokens.begin(), tuning.prompt.begin(), tuning.prompt.end());
  return tuning.tokenizer.Decode(tokens, {.skip_special = true});
}

}  // namespace

bool CannotDecode(const TrainFlags& flags, const StepSpec& spec) {
  return !spec.tuning && spec.tokenizer == nullptr &&
         TokenShards::Reads(flags.data);
}

int64_t SamplePositions(const TrainFlags& flags, const StepSpec& spec) {
  if (spec.onnx || spec.info.data != ModelData::kText) return 0;
  if (CannotDecode(flags, spec)) return 0;
  if (spec.tuning && (spec.tuning->classifies() || spec.tuning->embeds())) {
    return 0;
  }
  return flags.chat || flags.sample_length() > 0 ? *spec.options.seq : 0;
}

std::vector<ProgramSpec> SamplePrograms(const StepSpec& spec,
                                        int64_t positions) {
  if (positions == 0) return {};
  const auto model_of = [&](int64_t seq) {
    StepSpec part = spec;
    part.options.seq = seq;
    part.options.cache = positions;
    return ModelOf(part, ModelPurpose::kGenerate);
  };
  return GenerationPrograms(model_of, positions);
}

Status PrintSample(const TrainFlags& flags, const StepSpec& spec,
                   Training& training, std::string_view before) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string text,
                           Sample(flags, spec, training));
  const double temperature = SamplerOf(spec).temperature;
  std::cout << before << " (temperature " << Fixed(temperature, 1) << "):\n"
            << text << "\n\n";
  return {};
}

Status Chat(const TrainFlags& flags, const StepSpec& spec, Training& training) {
  constexpr int64_t kLongestAnswer = 512;  // tokens
  const Tuning& tuning = *spec.tuning;
  Generator generator = GeneratorOf(training);
  GenerationOptions options{.length = kLongestAnswer,
                            .sampler = tuning.sampler,
                            .tokens = tuning.tokenizer.size(),
                            .never = tuning.tokenizer.unused(),
                            .ends = tuning.ends,
                            .seed = static_cast<uint64_t>(flags.seed)};
  std::vector<ChatMessage> said;
  std::cerr << "stowage: say something; an empty line ends the conversation"
            << std::endl;
  for (std::string line; std::getline(std::cin, line) && !line.empty();) {
    said.push_back({"user", line});
    STOWAGE_ASSIGN_OR_RETURN(
        const std::string text,
        tuning.chat->Format(said, {.open_answer = true, .thinking = false}));
    int64_t without_token = 0;
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<int32_t> tokens,
        tuning.tokenizer.Encode(text, {.special = true,
                                       .add_prefix = false,
                                       .without_token = &without_token}));
    ReportLostBytes(tuning.tokenizer, without_token, "what was said");
    if (tokens.empty()) {
      std::cerr
          << "stowage: the tokenizer has no token for that; say something "
             "else"
          << std::endl;
      said.pop_back();
      continue;
    }
    WorkProgress answering("answering", "tokens");
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<int32_t> answer,
                             Write(generator, tokens, options, answering));
    ++options.seed;
    answering.Clear();
    STOWAGE_ASSIGN_OR_RETURN(
        std::string words,
        tuning.tokenizer.Decode(answer, {.skip_special = true}));
    std::cout << words << std::endl;
    said.push_back({"assistant", std::move(words)});
  }
  return {};
}

}  // namespace stowage::tools
