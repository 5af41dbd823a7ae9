#include "tools/run_notes.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/strings.h"
#include "data/token_shards.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "nn/schedule.h"
#include "runtime/checkpoint_file.h"
#include "text/text.h"
#include "tools/tuning.h"
#include "train/optimizer_choice.h"

namespace stowage::tools {

namespace {

// The notes, named like their options, that a resumed run must not change, with the reasons.
struct FixedNote {
  std::string_view name, why;
};
constexpr std::array<FixedNote, 9> kFixedNotes = {
    {{"optimizer", "which cannot go on with its states"},
     {"dtype", "in which its values are no others' to the bit"},
     {"loss-scale", "whose states of the scale are others"},
     {"lora-rank", "whose adapters have other shapes"},
     {"lora-alpha", "by which its adapters would count otherwise"},
     {"rslora", "by which its adapters would count otherwise"},
     {"dora", "whose adapters have other params"},
     {"lora-init", "beside whose adapters the base is another"},
     {"labels", "which its head tells apart otherwise"}}};

// Converts the name of a file to valid UTF-8, for JSON.
std::string InUtf8(const std::string& text) {
  using Text = nlohmann::json;
  return Text::parse(
      Text(text).dump(-1, ' ', false, Text::error_handler_t::replace));
}

// Whether a resumed run may change a fixed note: a fixed loss scale may become another.
bool MayBecome(std::string_view name, std::string_view was,
               std::string_view is) {
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.front() >= '0' && text.front() <= '9';
  };
  return name == "loss-scale" && is_number(was) && is_number(is);
}

// The flags that give an option `value`.
std::string HowToHave(std::string_view name, std::string_view value) {
  if (name == "lora-rank" && value == "none") {
    return "train without adapters, as finetune --full does";
  }
  if (name == "labels") return "give data with the labels of that run";
  if (value == "yes") return StrCat("give --", name);
  if (value == "no") return StrCat("leave --", name, " out");
  return StrCat("give --", name, " ", value);
}

// The value of --loss-scale.
std::string LossScaleNote(const std::optional<LossScaling>& scaling) {
  if (!scaling) return "none";
  return scaling->is_dynamic ? "dynamic" : StrCat(scaling->init_scale);
}

uint64_t Digest(std::span<const std::byte> bytes, uint64_t before) {
  return Xxh64({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
               before);
}

// A file's name and a digest of its content, which is read in parts.
Result<std::string> DataNote(const std::string& path) {
  constexpr Bytes kPart = 64 << 20;
  STOWAGE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path, "file"));
  std::vector<std::byte> part;
  uint64_t digest = Digest({}, 0);
  for (Bytes at = 0; at < file.size(); at += kPart) {
    part.resize(static_cast<size_t>(std::min(kPart, file.size() - at)));
    STOWAGE_RETURN_IF_ERROR(file.ReadAt(at, part));
    digest = Digest(part, at == 0 ? 0 : digest);
  }
  return StrCat(std::filesystem::path(path).filename().string(), " (",
                file.size(), " bytes, XXH64 ", HexDigest(digest), ")");
}

// The same for a corpus, whose digest does not read all of it.
Result<std::string> TokensNote(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(
      const TokenShards shards,
      TokenShards::Open(path, std::numeric_limits<int32_t>::max()));
  STOWAGE_ASSIGN_OR_RETURN(const uint64_t digest, shards.Digest());
  return StrCat(std::filesystem::path(path).filename().string(), " (",
                shards.Describe(), ", XXH64 of its ends ", HexDigest(digest),
                ")");
}

std::string WordsNote(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) {
    joined += StrCat(joined.empty() ? "" : ",", word);
  }
  return joined.empty() ? "none" : joined;
}

// A digest of the tokens of all examples, of those that are learned and of the validation set,
// after template, truncation and dropping.
std::string ExamplesNote(const ExampleSplit& split) {
  uint64_t digest = 0;
  for (const auto* const part : {&split.train, &split.held_out}) {
    for (const size_t i : *part) {
      const int texts = split.kind == ExampleKind::kPairs ? 2 : 1;
      for (int which = 0; which < texts; ++which) {
        const Sequence text = split.Of(i, which);
        digest = Digest(std::as_bytes(text.tokens[0]), digest);
        digest = Digest(std::as_bytes(text.learnt[0]), digest);
      }
    }
  }
  return StrCat(split.train.size(), " + ", split.held_out.size(), ", XXH64 ",
                HexDigest(digest));
}

// The same for labeled texts.
std::string TextsNote(const LabeledSplit& split) {
  uint64_t digest = 0;
  for (const auto* const part : {&split.train, &split.held_out}) {
    for (const size_t i : *part) {
      digest = Digest(std::as_bytes(std::span(split.texts[i].tokens)), digest);
      digest = Digest(std::as_bytes(std::span(split.texts[i].types)), digest);
      digest = Digest(std::as_bytes(std::span(&split.labels[i], 1)), digest);
    }
  }
  return StrCat(split.train.size(), " + ", split.held_out.size(), ", XXH64 ",
                HexDigest(digest));
}

// The same for queries and documents.
std::string QueriesNote(const ContrastiveSplit& split) {
  uint64_t digest = 0;
  const auto add = [&](size_t text) {
    digest = Digest(std::as_bytes(std::span(split.texts[text])), digest);
  };
  for (const auto* const part : {&split.train, &split.held_out}) {
    for (const size_t i : *part) {
      const ContrastiveSplit::Example& example = split.examples[i];
      add(example.query);
      std::ranges::for_each(example.positives, add);
      std::ranges::for_each(example.negatives, add);
    }
  }
  return StrCat(split.train.size(), " + ", split.held_out.size(), ", XXH64 ",
                HexDigest(digest));
}

// A folder's name and a digest of its content.
std::string FolderNote(const std::string& path, const ImageData& data) {
  const ImageShape& shape = data.shape;
  std::string note =
      StrCat(std::filesystem::weakly_canonical(path).filename().string(), " (",
             data.train.size(), " + ", data.held_out.size(), " images, ",
             shape.channels, " x ", shape.height, " x ", shape.width, ", ",
             shape.classes, " classes, means");
  for (const float mean : data.mean) note += StrCat(" ", mean);
  return StrCat(note, ", XXH64 ", HexDigest(data.digest), ")");
}

// Adds the settings of the update, except the optimizer's name.
void AddOptimizationNotes(const TrainOptions& training,
                          const LearningRateSchedule& schedule,
                          const RunFlags& flags, RunNotes* notes) {
  const auto add = [&](std::string_view name, const auto& value) {
    notes->emplace_back(name, StrCat(value));
  };
  add("lr", schedule.peak);
  add("schedule", ScheduleName(schedule.kind));
  add("warmup", schedule.warmup);
  add("min-lr", schedule.peak * schedule.final_factor);
  add("power", schedule.power);
  add("weight-decay", DecayOf(training.optimizer));
  std::string patterns;
  for (const std::string& pattern : flags.model.optimization.no_decay) {
    patterns += StrCat(patterns.empty() ? "" : " ", pattern);
  }
  add("no-decay", patterns.empty() ? "none" : patterns);
  add("label-smoothing", flags.model.optimization.label_smoothing.value_or(0));
  if (const std::optional<double> momentum = MomentumOf(training.optimizer)) {
    add("momentum", *momentum);
  }
  add("clip-norm", training.clip_norm ? StrCat(*training.clip_norm) : "none");
  add("ema", training.ema ? StrCat(*training.ema) : "none");
}

}  // namespace

Result<RunNotes> NotesOf(const StepSpec& spec, const RunSpec& run,
                         const TrainFlags& flags) {
  RunNotes notes;
  const auto add = [&](std::string_view name, const auto& value) {
    notes.emplace_back(name, InUtf8(StrCat(value)));
  };
  add("model", spec.info.name);
  add("optimizer", OptimizerName(spec.training.training.optimizer));
  add("dtype", DTypeName(spec.options.dtype));
  add("loss-scale", LossScaleNote(spec.training.training.loss_scaling));
  add("seed", flags.seed);
  AddOptimizationNotes(spec.training.training, run.schedule, flags, &notes);
  add("steps", run.steps);
  add("batch", *spec.options.batch);
  if (spec.options.seq) add("seq", *spec.options.seq);
  const Tokenizer* const tokenizer =
      spec.tuning ? &spec.tuning->tokenizer : spec.tokenizer.get();
  if (tokenizer != nullptr) {
    const std::string name =
        std::filesystem::path(flags.tokenizer).filename().string();
    add("tokenizer",
        StrCat(name.empty() ? "of the weights" : name, " (", tokenizer->size(),
               " tokens, XXH64 ", HexDigest(tokenizer->digest()), ")"));
  }
  std::optional<LoraRules> lora;
  if (spec.tuning) {
    lora = spec.tuning->model.options().lora;
  } else {
    STOWAGE_ASSIGN_OR_RETURN(lora, ReadLora(flags.model));
  }
  add("lora-rank", lora ? StrCat(lora->rank) : "none");
  if (lora) {
    add("lora-targets", WordsNote(lora->targets));
    add("lora-alpha", lora->alpha);
    add("rslora", lora->rank_stabilized ? "yes" : "no");
    add("dora", lora->dora ? "yes" : "no");
    add("lora-init", spec.tuning && spec.tuning->model.options().pissa
                         ? "pissa"
                         : "uniform");
    add("lora-plus",
        spec.tuning ? spec.tuning->model.options().lora_plus : 1.0);
    add("lora-dropout", lora->dropout);
  }
  if (spec.onnx) {
    STOWAGE_ASSIGN_OR_RETURN(const std::string model,
                             DataNote(flags.onnx.file));
    add("onnx", model);
    for (const std::string& beside : spec.onnx->files()) {
      STOWAGE_ASSIGN_OR_RETURN(const std::string tensors, DataNote(beside));
      add(StrCat("onnx ", std::filesystem::path(beside).filename().string()),
          tensors);
    }
    add("loss", flags.onnx.loss);
    add("input-map", WordsNote(flags.arrays.input_map));
    add("hold-out", flags.arrays.hold_out.value_or(0));
    add("shuffle", flags.arrays.shuffle);
  }
  if (spec.tuning) {
    // Identifies the model of config.json or a GGUF header independently of --seq.
    constexpr int64_t kMaxSeq = 8192;
    const FineTuning& model = spec.tuning->model;
    const int64_t seq = std::min(kMaxSeq, model.base().max_seq());
    STOWAGE_ASSIGN_OR_RETURN(const Graph graph,
                             model.ModelOf(ModelPurpose::kEvaluate, seq)(1));
    add("settings", StrCat("XXH64 ", HexDigest(Fingerprint(graph))));
    const auto& preference = model.options().preference;
    const auto& embedding = model.options().embedding;
    add("objective", model.options().classifier ? "classify"
                     : embedding                ? "embed"
                     : preference
                         ? PreferenceObjectiveName(preference->objective)
                         : "sft");
    if (const EncoderConfig* const encoder = model.base().encoder()) {
      add("hidden-dropout", encoder->dropout.hidden);
      add("attention-dropout", encoder->dropout.attention);
    }
    if (const EncoderConfig* const classifier = model.classifier()) {
      add("labels", nlohmann::json(classifier->labels).dump());
      add("classifier-dropout", classifier->dropout.classifier);
    }
    if (embedding) {
      add("similarity-scale", embedding->scale);
      add("symmetric", embedding->symmetric ? "yes" : "no");
      add("negatives", static_cast<double>(embedding->documents - 1));
    }
    if (preference) {
      add("beta", preference->beta);
      add("gamma", preference->gamma);
    }
    std::string lengths;
    for (const int64_t length : spec.tuning->lengths) {
      lengths += StrCat(lengths.empty() ? "" : ",", length);
    }
    add("lengths", lengths.empty() ? "none" : lengths);
    add("pack", model.options().packed ? "yes" : "no");
    add("held-out-batches", spec.tuning->held_out_batches);
    if (const auto* const examples =
            std::get_if<ExampleSplit>(&spec.tuning->data)) {
      add("examples", ExamplesNote(*examples));
    }
    if (const auto* const texts =
            std::get_if<LabeledSplit>(&spec.tuning->data)) {
      add("examples", TextsNote(*texts));
    }
    if (const auto* const texts =
            std::get_if<ContrastiveSplit>(&spec.tuning->data)) {
      add("examples", QueriesNote(*texts));
    }
  }
  std::error_code ignored;
  if (spec.images != nullptr &&
      std::filesystem::is_directory(flags.data, ignored)) {
    add("data", FolderNote(flags.data, *spec.images));
    return notes;
  }
  if (spec.info.data == ModelData::kText && TokenShards::Reads(flags.data)) {
    STOWAGE_ASSIGN_OR_RETURN(const std::string tokens, TokensNote(flags.data));
    add("data", tokens);
    return notes;
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string data, DataNote(flags.data));
  add("data", data);
  return notes;
}

RunNotes SubjectOf(const RunNotes& notes) {
  constexpr std::array<std::string_view, 17> kNames = {"objective",
                                                       "beta",
                                                       "gamma",
                                                       "model",
                                                       "settings",
                                                       "onnx",
                                                       "loss",
                                                       "input-map",
                                                       "tokenizer",
                                                       "data",
                                                       "lengths",
                                                       "examples",
                                                       "hold-out",
                                                       "held-out-batches",
                                                       "similarity-scale",
                                                       "symmetric",
                                                       "negatives"};
  RunNotes subject;
  std::ranges::copy_if(
      notes, std::back_inserter(subject), [&](const auto& note) {
        return std::ranges::find(kNames, note.first) != kNames.end();
      });
  return subject;
}

Result<std::string> CompareNotes(const CheckpointInfo& saved,
                                 const RunNotes& notes,
                                 const std::string& path) {
  std::string lines;
  for (const auto& [name, value] : notes) {
    const std::string* const was = saved.Find(name);
    if (was == nullptr || *was == value) continue;
    const auto fixed = std::ranges::find(kFixedNotes, name, &FixedNote::name);
    if (fixed != kFixedNotes.end() && !MayBecome(name, *was, value)) {
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[resume] ", Quoted(path), " is of a run with ",
                          name == "labels" ? "the " : "--", name, " ", *was,
                          ", this one has ", value, ", ", fixed->why, "; ",
                          HowToHave(name, *was))};
    }
    lines += StrCat("resume: ", name, " was ", *was, ", is ", value, "\n");
  }
  return lines;
}

namespace {

// The collectives of a step in order: ranks with different ones would deadlock, or combine
// unrelated values.
std::string CollectivesText(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) {
    if (!GetOpDef(node.op).collective) continue;
    text += StrCat(OpName(node.op), " ",
                   graph.value(node.inputs[0]).type.ToString(), "; ");
  }
  return StrCat(std::ranges::count(text, ';'), " collectives (XXH64 ",
                HexDigest(Xxh64(text)), ")");
}

}  // namespace

Result<std::vector<Sharding>> ShardingsOf(const TrainFlags& flags,
                                          const RankRun& ranks) {
  STOWAGE_ASSIGN_OR_RETURN(std::vector<Sharding> shardings,
                           ReadShard(flags.shard));
  if (!ranks.alone() || shardings.front() == Sharding::kNone) {
    if (ranks.alone()) shardings.resize(1);
    return shardings;
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[ranks] --shard ", flags.shard,
                      " splits among ranks, and there is one; start several: "
                      "mpirun -n 4 stowage train ...")};
}

Status KeepWeightsWhole(std::vector<Sharding>* shardings) {
  std::erase(*shardings, Sharding::kWeights);
  if (!shardings->empty()) return {};
  return Error{ErrorCode::kUnsupported,
               "[ranks] with --shard weights no rank has the weights from "
               "which the reference of this --objective comes; split less, "
               "or choose orpo or simpo"};
}

Result<bool> AgreeOnRun(const TrainFlags& flags, const StepSpec& spec,
                        const RunSpec& run, const TrainingPlan& plan,
                        int64_t evaluation_batch, RankRun& ranks) {
  if (ranks.alone()) return true;
  cluster::Facts facts;
  STOWAGE_ASSIGN_OR_RETURN(const RunNotes notes, NotesOf(spec, run, flags));
  for (const auto& [name, value] : notes) {
    facts.emplace_back(StrCat("the ", name), value);
  }
  if (spec.tuning) {
    STOWAGE_ASSIGN_OR_RETURN(const CheckpointBase base,
                             spec.tuning->model.BaseOfCheckpoints());
    facts.emplace_back("the base", base.content);
  }
  facts.emplace_back("the plan", CollectivesText(plan.step.graph));
  STOWAGE_RETURN_IF_ERROR(ranks.Agree(facts));
  // N numbers are equal if the square of their sum is N times the sum of their squares.
  const auto size = static_cast<double>(evaluation_batch);
  std::array<double, 2> sums = {size, size * size};
  STOWAGE_RETURN_IF_ERROR(ranks.Sum(sums));
  return sums[0] * sums[0] == ranks.ranks() * sums[1];
}

Status SavedByAll(const Status& own, RankRun& ranks) {
  constexpr int64_t kGood = -1;
  int64_t code = own.ok() ? kGood : static_cast<int64_t>(own.error().code);
  STOWAGE_RETURN_IF_ERROR(ranks.Share(&code));
  if (!own.ok() || code == kGood) return own;
  return Error{static_cast<ErrorCode>(code), "[ranks] rank 0 has not saved"};
}

}  // namespace stowage::tools
