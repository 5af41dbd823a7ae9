#include "tools/token_task.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/strings.h"
#include "data/batching.h"
#include "data/text_data.h"
#include "data/token_shards.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "text/text.h"
#include "tools/classify_task.h"
#include "tools/preference_task.h"
#include "tools/progress.h"
#include "tools/shard_task.h"
#include "tools/tuning.h"
#include "train/fine_tuning.h"
#include "train/generation.h"
#include "train/step_builder.h"

namespace stowage::tools {

namespace {

// Each example a sequence of its own.
std::vector<std::vector<size_t>> Apart(const std::vector<size_t>& part) {
  std::vector<std::vector<size_t>> sequences;
  for (const size_t example : part) sequences.push_back({example});
  return sequences;
}

std::vector<size_t> Numbers(size_t count) {
  std::vector<size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

// Batches of sequences, each of an example, or of several where they are packed.
class ExampleTask : public Task {
 public:
  ExampleTask(const Tuning& tuning, int64_t batch, uint64_t seed,
              const TaskShare& share)
      : Task(share),
        split_(std::get<ExampleSplit>(tuning.data)),
        is_packed_(tuning.model.options().packed),
        train_(is_packed_ ? PackExamples(split_, split_.train)
                          : Apart(split_.train)),
        held_out_(is_packed_ ? PackExamples(split_, split_.held_out)
                             : Apart(split_.held_out)),
        lengths_(tuning.lengths),
        held_out_batches_(tuning.held_out_batches),
        part_(PartOfRank(batch, share.ranks, share.rank)),
        batch_(batch),
        tokens_(static_cast<size_t>(batch * lengths_.front())),
        targets_(tokens_.size()),
        weights_(tokens_.size()),
        segments_(is_packed_ ? 2 * tokens_.size() : 0),
        positions_(is_packed_ ? tokens_.size() : 0),
        numbers_(Numbers(train_.size())),
        order_(numbers_, seed) {}

  size_t ShapeOf(int64_t step) override {
    if (is_packed_) return 0;
    size_t longest = 0;
    for (int64_t row = 0; row < batch_; ++row) {
      longest = std::max(
          longest,
          split_.examples.tokens(SequenceOf(step, row).front()).size());
    }
    // The last token of an example is never read.
    return ShortestThatHolds(lengths_, static_cast<int64_t>(longest) - 1);
  }

  Status WriteBatch(Runner& train, int64_t step) override {
    seq_ = lengths_[ShapeOf(step)];
    Clear(batch_);
    int64_t learnt = 0;
    for (int64_t row = 0; row < batch_; ++row) {
      learnt += Put(SequenceOf(step, row), row);
    }
    Weigh(batch_, learnt);
    return Write(train, part_);
  }

  int64_t EvaluationBatch(int64_t most) const override {
    return std::min(most, std::ssize(held_out_));
  }

  // The mean over all tokens that are to be learnt.
  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                              WorkProgress& progress) override {
    seq_ = lengths_.front();
    const auto size = std::ssize(held_out_);
    const int64_t batches =
        std::min((size + batch - 1) / batch, held_out_batches_);
    const auto score = [&](int64_t i) -> Result<Score> {
      Clear(batch);
      int64_t learnt = 0;
      for (int64_t row = 0; row < batch && i * batch + row < size; ++row) {
        learnt += Put(held_out_[static_cast<size_t>(i * batch + row)], row);
      }
      Weigh(batch, learnt);
      STOWAGE_RETURN_IF_ERROR(Write(evaluate, {.first = 0, .count = batch}));
      STOWAGE_RETURN_IF_ERROR(TakeStep(evaluate));
      STOWAGE_ASSIGN_OR_RETURN(const float loss, evaluate.ReadScalar("loss"));
      return Score{loss * static_cast<double>(learnt),
                   static_cast<double>(learnt)};
    };
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<Score> scores,
                             ScoreAll(share_, batches, progress, score));
    double sum = 0, all_learnt = 0;
    for (const Score& each : scores) {
      sum += each[0];
      all_learnt += each[1];
    }
    return Evaluation{.loss = sum / all_learnt, .accuracy = std::nullopt};
  }

  int64_t train_examples() const override { return std::ssize(train_); }
  int64_t tokens_per_step(size_t shape) const override {
    return batch_ * lengths_[shape];
  }
  std::string_view token_name() const override { return "tok"; }

 private:
  // The examples in a row of the batch of `step`.
  const std::vector<size_t>& SequenceOf(int64_t step, int64_t row) {
    return train_[order_.At((step - 1) * batch_ + row)];
  }

  void Clear(int64_t batch) {
    const auto size = static_cast<size_t>(batch * seq_);
    std::fill_n(tokens_.begin(), size, 0);
    std::fill_n(targets_.begin(), size, 0);
    std::fill_n(weights_.begin(), size, 0.0f);
    if (!is_packed_) return;
    for (int64_t row = 0; row < batch; ++row) SetSegment(row, 0, seq_);
  }

  // Positions [begin, end) of a row as one text.
  void SetSegment(int64_t row, int64_t begin, int64_t end) {
    const auto first = segments_.begin() + 2 * row * seq_;
    std::fill(first + begin, first + end, static_cast<int32_t>(begin));
    std::fill(first + seq_ + begin, first + seq_ + end,
              static_cast<int32_t>(end));
    const auto position = positions_.begin() + row * seq_;
    std::iota(position + begin, position + end, 0);
  }

  // Examples, one behind the other, as row `row`; returns how many of their tokens are to
  // be learnt. What is left of the row is a text of its own.
  int64_t Put(const std::vector<size_t>& examples, int64_t row) {
    int64_t counted = 0, begin = 0;
    for (const size_t example : examples) {
      const std::span<const int32_t> tokens = split_.examples.tokens(example);
      const std::span<const uint8_t> learnt = split_.examples.learnt(example);
      const int64_t count = std::min(std::ssize(tokens) - 1, seq_ - begin);
      for (int64_t i = 0; i < count; ++i) {
        const auto from = static_cast<size_t>(i);
        const auto to = static_cast<size_t>(row * seq_ + begin + i);
        tokens_[to] = tokens[from];
        targets_[to] = tokens[from + 1];
        weights_[to] = learnt[from + 1];
        counted += learnt[from + 1];
      }
      if (is_packed_) SetSegment(row, begin, begin + count);
      begin += count;
    }
    if (is_packed_ && begin < seq_) SetSegment(row, begin, seq_);
    return counted;
  }

  // So that the mean over all positions is that over the learnt ones.
  void Weigh(int64_t batch, int64_t learnt) {
    const float weight = static_cast<float>(batch * seq_) /
                         static_cast<float>(std::max(learnt, int64_t{1}));
    const auto size = static_cast<size_t>(batch * seq_);
    for (float& w : std::span(weights_).first(size)) w *= weight;
  }

  Status Write(Runner& runner, const BatchPart& part) {
    const auto of = [&](const auto& values, int64_t each) {
      return std::span(values).subspan(static_cast<size_t>(part.first * each),
                                       static_cast<size_t>(part.count * each));
    };
    STOWAGE_RETURN_IF_ERROR(runner.Write("tokens", of(tokens_, seq_)));
    STOWAGE_RETURN_IF_ERROR(runner.Write("targets", of(targets_, seq_)));
    STOWAGE_RETURN_IF_ERROR(runner.Write("target_weights", of(weights_, seq_)));
    if (!is_packed_) return {};
    STOWAGE_RETURN_IF_ERROR(runner.Write("segments", of(segments_, 2 * seq_)));
    // Of models that add a vector for each.
    if (!runner.graph().Find("positions")) return {};
    return runner.Write("positions", of(positions_, seq_));
  }

  const ExampleSplit& split_;
  const bool is_packed_;
  const std::vector<std::vector<size_t>> train_, held_out_;
  const std::vector<int64_t>& lengths_;
  const int64_t held_out_batches_;
  const BatchPart part_;
  const int64_t batch_;
  int64_t seq_ = 0;  // of the batch at hand
  std::vector<int32_t> tokens_, targets_;
  std::vector<float> weights_;
  std::vector<int32_t> segments_;   // first positions, then ends, of each row
  std::vector<int32_t> positions_;  // in their texts
  const std::vector<size_t> numbers_;  // of train_
  TrainOrder order_;
};

}  // namespace

Result<std::unique_ptr<Task>> MakeTokenTask(const Tuning& tuning, int64_t batch,
                                            uint64_t seed,
                                            const TaskShare& share) {
  if (const auto* const shards = std::get_if<SharedShards>(&tuning.data)) {
    return MakeShardTask(*shards, batch, tuning.lengths.front(), seed,
                         tuning.held_out_batches, share);
  }
  if (const auto* const text = std::get_if<TextData>(&tuning.data)) {
    return MakeTextTask(*text, batch, tuning.lengths.front(), seed,
                        tuning.held_out_batches, share);
  }
  if (tuning.classifies()) {
    return MakeClassifyTask(tuning, batch, seed, share);
  }
  if (tuning.model.options().preference) {
    return MakePreferenceTask(tuning, batch, seed, share);
  }
  return std::unique_ptr<Task>(
      std::make_unique<ExampleTask>(tuning, batch, seed, share));
}

namespace {

Generator GeneratorOf(Training& training) {
  return Generator(*training.Find("generate"), training.Find("prefill"));
}

Sampler SamplerOf(const StepSpec& spec) {
  return spec.tuning ? spec.tuning->sampler : Sampler();
}

// Tokens that follow `text`.
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
    const std::vector<int32_t> newline = {0};  // a line begins
    options.tokens = kTextVocabulary;
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
  if (spec.tuning && spec.tuning->classifies()) return 0;
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
