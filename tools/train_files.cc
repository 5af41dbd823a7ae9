#include "tools/train_files.h"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_options.h"
#include "base/hash.h"
#include "base/input_file.h"
#include "base/run_files.h"
#include "base/strings.h"
#include "nn/schedule.h"
#include "planner/plan.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_format.h"
#include "runtime/checkpoint_shards.h"
#include "runtime/initial_values.h"
#include "text/text.h"
#include "tools/command.h"
#include "tools/tuning.h"
#include "train/checkpoint_series.h"
#include "train/device.h"
#include "train/merged_weights.h"

namespace stowage::tools {

namespace {

// Notes of a run that a checkpoint of another cannot go on with, called as their options
// are, and why it cannot.
struct FixedNote {
  std::string_view name, why;
};
constexpr std::array<FixedNote, 6> kFixedNotes = {
    {{"optimizer", "which cannot go on with its states"},
     {"dtype", "in which its values are no others' to the bit"},
     {"loss-scale", "whose states of the scale are others"},
     {"lora-rank", "whose adapters have other shapes"},
     {"lora-alpha", "by which its adapters would count otherwise"},
     {"rslora", "by which its adapters would count otherwise"}}};

// In UTF-8, as JSON must be, whatever the names of files are.
std::string InUtf8(const std::string& text) {
  using Text = nlohmann::json;
  return Text::parse(
      Text(text).dump(-1, ' ', false, Text::error_handler_t::replace));
}

// Whether a run goes on with another value of a fixed note: a loss scale that stays may
// become another.
bool MayBecome(std::string_view name, std::string_view was,
               std::string_view is) {
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.front() >= '0' && text.front() <= '9';
  };
  return name == "loss-scale" && is_number(was) && is_number(is);
}

// What to do for a run to have `value` of an option.
std::string HowToHave(std::string_view name, std::string_view value) {
  if (name == "lora-rank" && value == "none") {
    return "train without adapters, as finetune --full does";
  }
  return StrCat("give --", name, " ", value);
}

// As --loss-scale has it.
std::string LossScaleNote(const std::optional<LossScaling>& scaling) {
  if (!scaling) return "none";
  return scaling->is_dynamic ? "dynamic" : StrCat(scaling->init_scale);
}

uint64_t Digest(std::span<const std::byte> bytes, uint64_t before) {
  return Xxh64({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
               before);
}

// The file's name and what is in it, in brief. Reads a part of it at a time.
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

std::string WordsNote(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) {
    joined += StrCat(joined.empty() ? "" : ",", word);
  }
  return joined.empty() ? "none" : joined;
}

// The tokens of all examples, which are to be learnt, and which are held out: what the
// template, the length of a sequence and what is too long for it have made of the data.
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

// The folder's name and what is in it.
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

// How params are updated, beside the optimizer's name.
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
}

}  // namespace

std::string ShardFolderOf(const std::string& checkpoint) {
  return checkpoint.empty() ? ""
                            : Beside(checkpoint, ShardFolderName(checkpoint));
}

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
    // What config.json or a GGUF file's header makes of the model, whatever --seq is.
    constexpr int64_t kMaxSeq = 8192;
    const FineTuning& model = spec.tuning->model;
    const int64_t seq = std::min(kMaxSeq, model.base().max_seq());
    STOWAGE_ASSIGN_OR_RETURN(const Graph graph,
                             model.ModelOf(ModelPurpose::kEvaluate, seq)(1));
    add("settings", StrCat("XXH64 ", HexDigest(Fingerprint(graph))));
    const auto& preference = model.options().preference;
    add("objective",
        preference ? PreferenceObjectiveName(preference->objective) : "sft");
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
  }
  std::error_code ignored;
  if (spec.images != nullptr &&
      std::filesystem::is_directory(flags.data, ignored)) {
    add("data", FolderNote(flags.data, *spec.images));
    return notes;
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string data, DataNote(flags.data));
  add("data", data);
  return notes;
}

namespace {

// Those that say what was trained, and on what: losses of other runs are not compared.
RunNotes SubjectOf(const RunNotes& notes) {
  constexpr std::array<std::string_view, 14> kNames = {
      "objective", "beta",     "gamma",     "model",           "settings",
      "onnx",      "loss",     "input-map", "tokenizer",       "data",
      "lengths",   "examples", "hold-out",  "held-out-batches"};
  RunNotes subject;
  std::ranges::copy_if(
      notes, std::back_inserter(subject), [&](const auto& note) {
        return std::ranges::find(kNames, note.first) != kNames.end();
      });
  return subject;
}

}  // namespace

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
                   StrCat("[resume] ", Quoted(path), " is of a run with --",
                          name, " ", *was, ", this one has ", value, ", ",
                          fixed->why, "; ", HowToHave(name, *was))};
    }
    lines += StrCat("resume: ", name, " was ", *was, ", is ", value, "\n");
  }
  return lines;
}

namespace {

// What came of --init, a line for each.
std::string WeightsText(const std::string& path, const LoadedWeights& loaded) {
  std::string text = StrCat("init: ", loaded.loaded,
                            " params have the weights ", "of ", path, "\n");
  for (const std::string& name : loaded.missing) {
    text +=
        StrCat("init: ", name, " is not in it and begins as the seed says\n");
  }
  for (const std::string& name : loaded.unused) {
    text += StrCat("init: ", name, " of it is not used\n");
  }
  return text;
}

// What checkpoints call the evaluations of their run.
constexpr std::string_view kEvaluations = "evaluations";

// What cannot be looked at is there: to open it says why.
bool IsThere(const std::string& path) {
  std::error_code failed;
  return !path.empty() && (std::filesystem::exists(path, failed) || failed);
}

// That each rank finds the checkpoint there that rank 0 goes on from.
Status CheckSameAtAll(const std::string& path, RankRun& ranks) {
  STOWAGE_ASSIGN_OR_RETURN(const CheckpointInfo info, ReadCheckpointInfo(path));
  const auto own = static_cast<int64_t>(Xxh64(info.digest));
  int64_t of_first = own;
  STOWAGE_RETURN_IF_ERROR(ranks.Share(&of_first));
  if (own == of_first) return {};
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[ranks] rank ", ranks.rank(), " finds a checkpoint of ",
                      "step ", info.step, " at ", Quoted(path),
                      ", which is not rank 0's; its shards are read by all, "
                      "and all must see the same files")};
}

}  // namespace

TrialFolders::TrialFolders(std::initializer_list<std::string> paths) {
  std::error_code ignored;
  for (std::filesystem::path path : paths) {
    for (; !path.empty() && !std::filesystem::exists(path, ignored);
         path = path.parent_path()) {
      new_.push_back(path);
    }
  }
}

TrialFolders::~TrialFolders() {
  std::error_code ignored;
  for (const std::filesystem::path& folder : new_) {
    if (std::filesystem::is_directory(folder, ignored)) {
      std::filesystem::remove(folder,
                              ignored);  // which fails where it is not empty
    }
  }
}

namespace {

// That a file of weights is not called as another kind of file is. Models are GGUF files,
// too.
Status CheckWeightsName(std::string_view option, const std::string& path,
                        bool may_be_npz) {
  if (!may_be_npz && IsGgufPath(path)) return {};
  constexpr std::string_view kOthers[] = {".npy",  ".pt",   ".pth", ".bin",
                                          ".onnx", ".gguf", ".h5",  ".npz"};
  const auto ending =
      std::ranges::find_if(kOthers, [&](std::string_view other) {
        return EndsWithAnyCase(path, other) && !(may_be_npz && other == ".npz");
      });
  if (ending == std::end(kOthers)) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[", option, "] ", Quoted(path), " ends in ", *ending,
             ", and safetensors are written, or ",
             may_be_npz ? "an NPZ" : "GGUF", "; call it .safetensors or ",
             may_be_npz ? ".npz" : ".gguf")};
}

}  // namespace

Result<TrainFiles> TrainFiles::Open(const TrainFlags& flags,
                                    const StepSpec& spec, const RunSpec& run,
                                    RankRun& ranks) {
  const std::string& checkpoint = flags.checkpoint();
  if (!ranks.speaks()) {
    STOWAGE_ASSIGN_OR_RETURN(Output no_svg, Output::Open(""));
    STOWAGE_ASSIGN_OR_RETURN(Output no_html, Output::Open(""));
    TrainFiles files(std::move(no_svg), std::move(no_html));
    STOWAGE_RETURN_IF_ERROR(files.OpenShards(flags, spec, run, ranks));
    return files;
  }
  const bool keeps_best =
      !checkpoint.empty() && (run.save_every > 0 || run.eval_every > 0);
  // Before any file is claimed: a folder that is made later would take its place.
  const bool has_adapter_file = IsGgufPath(flags.save_adapter);
  const std::string adapter_folder = has_adapter_file ? "" : flags.save_adapter;
  for (const std::string& folder : {flags.log.ends_with('/') ? flags.log : "",
                                    flags.model.plan_cache, adapter_folder}) {
    if (!folder.empty()) STOWAGE_RETURN_IF_ERROR(NoteFolder(folder));
  }
  STOWAGE_RETURN_IF_ERROR(
      CheckWeightsName("save-weights", flags.save_weights, true));
  STOWAGE_RETURN_IF_ERROR(
      CheckWeightsName("save-merged", flags.save_merged, false));
  STOWAGE_RETURN_IF_ERROR(CheckPaths(
      {{flags.continued.empty() ? "save" : "continue", checkpoint},
       {"save (the best)", keeps_best ? BestPath(checkpoint) : ""},
       {"save-weights", flags.save_weights},
       {"save-onnx", flags.save_onnx},
       {has_adapter_file ? "save-adapter" : "save-adapter (a folder)",
        flags.save_adapter},
       {"save-adapter", AdapterWeightsPath(adapter_folder)},
       {"save-adapter", AdapterConfigPath(adapter_folder)},
       {"save-merged", flags.save_merged},
       {"log", flags.log},
       {"svg", flags.svg},
       {"html", flags.html}},
      {{"data", flags.data},
       {"resume", flags.resume},
       {"resume", ShardFolderOf(flags.resume)},
       {"continue", ShardFolderOf(flags.continued)},
       {"save (its shards)", ShardFolderOf(flags.save)},
       {"init", flags.init},
       {"init", ShardFolderOf(flags.init)},
       {"onnx", flags.onnx.file},
       {"weights", flags.weights},
       {"tokenizer", flags.tokenizer},
       {"op-times", flags.model.op_times}}));
  STOWAGE_ASSIGN_OR_RETURN(Output svg, Output::Open(flags.svg));
  STOWAGE_ASSIGN_OR_RETURN(Output html, Output::Open(flags.html));
  TrainFiles files(std::move(svg), std::move(html));
  files.keeps_best_ = keeps_best;
  if (spec.tuning && !(checkpoint.empty() && flags.resume.empty())) {
    STOWAGE_ASSIGN_OR_RETURN(files.base_,
                             spec.tuning->model.BaseOfCheckpoints());
  }
  if (!checkpoint.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(
        files.checkpoints_,
        CheckpointSeries::Claim(checkpoint, {.keep_last = flags.keep_last,
                                             .keep_best = keeps_best}));
    if (!files.checkpoints_->is_locked()) {
      std::cerr << "stowage: the file system of " << Quoted(checkpoint)
                << " has no locks: no other run may be given this file"
                << std::endl;
    }
    STOWAGE_RETURN_IF_ERROR(files.OpenShards(flags, spec, run, ranks));
  }
  // Once it is claimed, no other run makes it any more.
  files.resumed_ = IsThere(flags.continued) ? flags.continued : flags.resume;
  if (!flags.save_weights.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.weights_,
                             OutputFile::Claim(flags.save_weights));
  }
  if (!flags.save_onnx.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.onnx_, OutputFile::Claim(flags.save_onnx));
  }
  if (!adapter_folder.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.adapter_,
                             AdapterFiles::Claim(adapter_folder));
  }
  STOWAGE_ASSIGN_OR_RETURN(files.gguf_,
                           GgufOutput::Open(flags, spec.tuning.get()));
  if (!flags.save_merged.empty() && !IsGgufPath(flags.save_merged)) {
    STOWAGE_ASSIGN_OR_RETURN(files.merged_,
                             OutputFile::Claim(flags.save_merged));
  }
  if (!flags.log.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.log_, StepLog::Open(flags.log));
  }
  if (!flags.init.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.rules_, ReadWeightRules(flags));
  }
  if (files.checkpoints_ || !files.resumed_.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(files.notes_, NotesOf(spec, run, flags));
  }
  return files;
}

// What all ranks need to save together.
Status TrainFiles::OpenShards(const TrainFlags& flags, const StepSpec& spec,
                              const RunSpec& run, RankRun& ranks) {
  if (!run.saves_shards) return {};
  saves_shards_ = true;
  shards_of_ = flags.checkpoint();
  if (spec.tuning && base_.content.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(base_, spec.tuning->model.BaseOfCheckpoints());
  }
  auto sign = static_cast<int64_t>(std::random_device()());
  STOWAGE_RETURN_IF_ERROR(ranks.Share(&sign));
  STOWAGE_RETURN_IF_ERROR(PrepareShards(shards_of_, ranks.rank(), sign));
  STOWAGE_ASSIGN_OR_RETURN([[maybe_unused]] const int all_have, ranks.AnyOf(0));
  const Status seen =
      ranks.speaks() ? CheckSigns(shards_of_, ranks.ranks(), sign) : Status();
  STOWAGE_ASSIGN_OR_RETURN([[maybe_unused]] const int rank_0_has,
                           ranks.AnyOf(0));
  RemoveSign(shards_of_, ranks.rank(), sign);
  return seen;
}

// Where rank 0 has the values from that a run begins with, which all ranks learn.
Result<TrainFiles::Origin> TrainFiles::OriginOfValues(const TrainFlags& flags,
                                                      const StepSpec& spec,
                                                      RankRun& ranks) {
  auto origin = static_cast<int64_t>(Origin::kWhole);
  if (ranks.speaks() && !ranks.alone() && !spec.tuning) {
    if (!resumed_.empty()) {
      STOWAGE_ASSIGN_OR_RETURN(const CheckpointInfo info,
                               ReadCheckpointInfo(resumed_));
      if (info.shards > 0) origin = static_cast<int64_t>(Origin::kShards);
    } else if (!spec.onnx && flags.init.empty()) {
      origin = static_cast<int64_t>(Origin::kSeed);
    }
  }
  STOWAGE_RETURN_IF_ERROR(ranks.Share(&origin));
  return static_cast<Origin>(origin);
}

Result<int64_t> TrainFiles::Begin(const TrainFlags& flags, const StepSpec& spec,
                                  const RunSpec& run, Training& training,
                                  RankRun& ranks, const RankValues& values) {
  if (!flags.save_weights.empty()) {
    STOWAGE_RETURN_IF_ERROR(CheckSaveWeights(values.whole, flags.save_weights));
  }
  if (!notes_.empty()) {
    // In how many parts a batch is summed, which rounds sums: a budget or other ranks may
    // choose another number.
    notes_.emplace_back(
        "micro-batches",
        StrCat(ranks.ranks() * training.plan().step.price.micro_batches));
  }
  int64_t done = 0;
  STOWAGE_ASSIGN_OR_RETURN(const Origin origin,
                           OriginOfValues(flags, spec, ranks));
  if (origin == Origin::kShards) {
    const std::string& path =
        flags.continued.empty() ? flags.resume : flags.continued;
    STOWAGE_RETURN_IF_ERROR(CheckSameAtAll(path, ranks));
    const auto load = [&] {
      return LoadCheckpoint(training.step(), values, path);
    };
    STOWAGE_ASSIGN_OR_RETURN(
        done, ranks.speaks() ? GoOn(flags, run, "", load) : load());
  } else if (values.own_name == nullptr) {
    if (ranks.speaks()) {
      STOWAGE_ASSIGN_OR_RETURN(
          done, GiveValues(flags, spec, run, training.session()));
    } else {
      training.Initialize(static_cast<uint64_t>(flags.seed));
    }
    STOWAGE_RETURN_IF_ERROR(ranks.Share(training.step()));
  } else if (origin == Origin::kSeed) {
    STOWAGE_RETURN_IF_ERROR(ScatterValues(
        values, *ranks.collectives(),
        [&](const ValueInfo& leaf, std::span<std::byte> bytes) -> Status {
          MakeInitialValues(leaf, static_cast<uint64_t>(flags.seed),
                            [&](Bytes begin, std::span<const std::byte> part) {
                              std::ranges::copy(part, bytes.begin() + begin);
                            });
          return {};
        },
        training.step()));
  } else {
    STOWAGE_ASSIGN_OR_RETURN(WholeValues whole,
                             WholeValues::Make(values.whole, training.backend(),
                                               *ranks.collectives()));
    if (Session* const session = whole.session()) {
      STOWAGE_ASSIGN_OR_RETURN(done, GiveValues(flags, spec, run, *session));
    }
    STOWAGE_RETURN_IF_ERROR(whole.Scatter(training.step()));
  }
  STOWAGE_RETURN_IF_ERROR(ranks.Share(&done));
  STOWAGE_RETURN_IF_ERROR(ShareHistory(ranks));
  if (log_) STOWAGE_RETURN_IF_ERROR(log_->Begin(done));
  return done;
}

// Rank 0 alone has read it.
Status TrainFiles::ShareHistory(RankRun& ranks) {
  auto loss = std::bit_cast<int64_t>(history_.best_loss);
  for (int64_t* const number : {&history_.last_step, &history_.best_step, &loss,
                                &history_.since_best}) {
    STOWAGE_RETURN_IF_ERROR(ranks.Share(number));
  }
  history_.best_loss = std::bit_cast<double>(loss);
  return {};
}

Result<int64_t> TrainFiles::GiveValues(const TrainFlags& flags,
                                       const StepSpec& spec, const RunSpec& run,
                                       Session& session) {
  if (resumed_.empty()) {
    STOWAGE_RETURN_IF_ERROR(Start(flags, spec, session));
    return int64_t{0};
  }
  const std::string adapter = spec.tuning ? spec.tuning->adapter : "";
  return GoOn(flags, run, adapter, [&]() -> Result<int64_t> {
    if (!base_.params.empty()) {
      STOWAGE_RETURN_IF_ERROR(spec.tuning->model.LoadBase(session.front()));
    }
    return LoadCheckpoint(session.front(), resumed_, base_);
  });
}

// The values of a run that begins.
Status TrainFiles::Start(const TrainFlags& flags, const StepSpec& spec,
                         Session& session) {
  session.Initialize(static_cast<uint64_t>(flags.seed));
  Runner& step = session.front();
  STOWAGE_RETURN_IF_ERROR(WriteOnnxWeights(spec, step));
  if (spec.tuning) {
    const Tuning& tuning = *spec.tuning;
    STOWAGE_RETURN_IF_ERROR(tuning.model.LoadBase(step));
    if (!tuning.adapter.empty()) {
      STOWAGE_RETURN_IF_ERROR(LoadAdapter(tuning.model, tuning.adapter, step));
    }
  }
  if (flags.init.empty()) return {};
  STOWAGE_ASSIGN_OR_RETURN(const LoadedWeights loaded,
                           LoadWeights(step, flags.init, rules_));
  std::cerr << WeightsText(flags.init, loaded) << std::flush;
  return {};
}

// Goes on from a checkpoint, whose values `load` gives.
Result<int64_t> TrainFiles::GoOn(const TrainFlags& flags, const RunSpec& run,
                                 const std::string& adapter,
                                 const std::function<Result<int64_t>()>& load) {
  STOWAGE_ASSIGN_OR_RETURN(const CheckpointInfo info,
                           ReadCheckpointInfo(resumed_));
  STOWAGE_ASSIGN_OR_RETURN(const std::string differences,
                           CompareNotes(info, notes_, resumed_));
  if (const std::string* const text = info.Find(kEvaluations)) {
    STOWAGE_ASSIGN_OR_RETURN(history_, ParseEvaluationHistory(*text));
  }
  const Result<int64_t> loaded = load();
  if (!loaded.ok()) {
    // Adapters beside other layers may be why.
    const size_t at = differences.find("resume: lora-targets ");
    if (at == std::string::npos) return loaded.error();
    return Error{
        loaded.error().code,
        StrCat(loaded.error().message, "; ",
               differences.substr(at, differences.find('\n', at) - at))};
  }
  const int64_t done = *loaded;
  const bool is_done = !flags.continued.empty() && done == run.stop_at;
  if (done >= run.stop_at && !is_done) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[train] nothing is left to do: the checkpoint is at "
                        "step ",
                        done, " and the run ends at ", run.stop_at,
                        flags.stop_at ? "; give a later --stop-at"
                                      : "; give more --steps")};
  }
  std::cerr << differences;
  if (!flags.continued.empty()) {
    std::cerr << "continue: " << resumed_ << " is of step " << done << " of "
              << run.stop_at << "\n";
    for (const std::string& origin : {flags.init, adapter}) {
      if (origin.empty()) continue;
      std::cerr << "continue: " << origin
                << " counts for the beginning alone, and is not read\n";
    }
  }
  std::cerr << std::flush;
  if (checkpoints_) {
    STOWAGE_ASSIGN_OR_RETURN(const std::string other,
                             checkpoints_->Continue(SubjectOf(notes_)));
    std::cerr << other << std::flush;
  }
  return done;
}

Status TrainFiles::CheckResumed() const {
  STOWAGE_ASSIGN_OR_RETURN(const CheckpointInfo info,
                           ReadCheckpointInfo(resumed_));
  const Result<std::string> differences = CompareNotes(info, notes_, resumed_);
  return differences.ok() ? Status() : differences.error();
}

// Those of the run and of its evaluations.
RunNotes TrainFiles::AllNotes() const {
  RunNotes notes = notes_;
  if (history_.last_step > 0) {
    notes.emplace_back(kEvaluations, ToText(history_));
  }
  return notes;
}

Status TrainFiles::SaveSeries(int64_t step, std::optional<double> held_out_loss,
                              bool best_alone,
                              const CheckpointSeries::WriteCheckpoint& write) {
  const RunNotes notes = AllNotes();
  // First: a run that is killed between the two goes on from the newest, and evaluates
  // this step again.
  Status best;
  if (keeps_best_ && held_out_loss) {
    const Result<bool> saved =
        checkpoints_->SaveIfBest(*held_out_loss, notes, write);
    if (!saved.ok()) best = saved.error();
  }
  if (!best_alone) {
    STOWAGE_RETURN_IF_ERROR(checkpoints_->Save(step, notes, write));
  }
  STOWAGE_RETURN_IF_ERROR(best);
  const Status removed = RemoveUnusedShards(checkpoints_->path());
  if (!removed.ok() && !tells_of_shards_) {
    tells_of_shards_ = true;
    std::cerr << "stowage: the shards of earlier checkpoints in "
              << Quoted(ShardFolderOf(checkpoints_->path()))
              << " are not removed, since a file beside them may need them: "
              << removed.error().message << std::endl;
  }
  return {};
}

Status TrainFiles::Save(const Runner& runner, int64_t step,
                        std::optional<double> held_out_loss, bool best_alone) {
  if (!checkpoints_) return CheckFinite(runner);
  return SaveSeries(step, held_out_loss, best_alone,
                    [&](const OutputFile& file, const RunNotes& notes) {
                      return SaveCheckpoint(runner, file, step, notes, base_);
                    });
}

Status TrainFiles::SaveShards(const Runner& step, const RankValues& values,
                              Collectives* collectives, int64_t number,
                              std::optional<double> held_out_loss,
                              bool best_alone) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<uint64_t> shards,
                           stowage::SaveShards(step, values, shards_of_, number,
                                               base_, collectives));
  if (!checkpoints_) return {};  // rank 0 tells of them
  return SaveSeries(number, held_out_loss, best_alone,
                    [&](const OutputFile& file, const RunNotes& notes) {
                      return SaveShardIndex(step, values, shards, file,
                                            shards_of_, number, notes, base_);
                    });
}

Status TrainFiles::SaveOnnx(const Runner& runner, const StepSpec& spec) const {
  STOWAGE_ASSIGN_OR_RETURN(
      const std::string bytes,
      spec.onnx->WithWeights(runner.graph(), [&](NamedArray& weight) {
        return runner.ReadBytes(weight.name, weight.array.type.dtype,
                                weight.array.data());
      }));
  return onnx_->Replace(bytes);
}

Status TrainFiles::SaveForOthers(const Runner& runner,
                                 const StepSpec& spec) const {
  Status all;
  if (weights_) all = Both(all, SaveWeights(runner, *weights_));
  if (onnx_) all = Both(all, SaveOnnx(runner, spec));
  if (adapter_) {
    all = Both(all, SaveAdapter(spec.tuning->model, runner, *adapter_));
  }
  if (merged_) {
    all = Both(all, SaveMerged(spec.tuning->model, runner, *merged_));
  }
  if (!spec.tuning) return all;
  all = Both(all, gguf_.SaveAdapter(*spec.tuning, runner));
  return Both(all, gguf_.SaveMerged(*spec.tuning, runner));
}

std::string TrainFiles::WhatIsSaved() const {
  if (!checkpoints_) return "nothing was saved, since there is no --save";
  const std::string path = Quoted(checkpoints_->path());
  const std::optional<int64_t> step = checkpoints_->last_step();
  return step ? StrCat("the last checkpoint, ", path, ", is of step ", *step)
              : StrCat("this run has saved nothing to ", path);
}

namespace {

using Json = nlohmann::ordered_json;

// Of this process alone: getrusage counts what was resident before exec, too.
Bytes PeakResidentBytes() {
  std::ifstream status("/proc/self/status");
  Bytes kibibytes = 0;
  for (std::string word; status >> word;) {
    if (word == "VmHWM:" && status >> kibibytes) break;
  }
  return kibibytes * 1024;
}

// By rank 0 to the others; absent on GPUs, whose exchanges pass by what counts.
std::optional<Bytes> BytesSentPerStep(const TrainResults& results) {
  if (results.session.backend().name() != "cpu") return std::nullopt;
  return results.run.steps == 0 ? 0
                                : results.run.bytes_sent / results.run.steps;
}

}  // namespace

Json TuningJson(const Tuning& tuning) {
  Json json = {{"trainable_params", tuning.model.trainable_params()},
               {"frozen_bytes", tuning.model.frozen_bytes()},
               {"lengths", tuning.lengths}};
  const Positions positions = CountPositions(tuning);
  if (positions.computed > 0) {
    json["positions_computed"] = positions.computed;
    json["positions_if_padded"] = positions.if_padded;
    json["tokens_per_pass"] = positions.tokens;
  }
  return json;
}

Json ToJson(const TrainResults& results) {
  Json json = Json::object();
  json["done"] = true;
  json["steps"] = results.steps;
  const auto& evaluation = results.evaluation;
  json["validation_loss"] = evaluation ? Json(evaluation->loss) : Json();
  if (evaluation && evaluation->accuracy) {
    json["accuracy"] = *evaluation->accuracy;
  }
  if (results.history != nullptr && results.history->best_step > 0) {
    json["best_validation_loss"] = results.history->best_loss;
    json["best_step"] = results.history->best_step;
  }
  if (results.stops_early) json["stopped_early"] = true;
  if (results.base) json["base_validation_loss"] = results.base->loss;
  if (results.tuning != nullptr) json.update(TuningJson(*results.tuning));
  json["arena_bytes"] = results.memory.arena;
  json["host_bytes"] = results.session.host_bytes();
  json["peak_rss_bytes"] = PeakResidentBytes();
  json["heap_allocations_in_steps"] = results.run.heap_allocations
                                          ? Json(*results.run.heap_allocations)
                                          : Json();
  if (results.run.skipped > 0) json["skipped_steps"] = results.run.skipped;
  json["seconds"] = results.seconds;
  if (results.ranks > 1) {
    json["ranks"] = results.ranks;
    const std::optional<Bytes> sent = BytesSentPerStep(results);
    json["bytes_sent_per_step"] = sent ? Json(*sent) : Json();
  }
  json.update(PredictedJson(results.predicted));
  const Backend& backend = results.session.backend();
  json["device"] = backend.name();
  for (const MemoryNote& note : backend.MemoryBesideArena()) {
    json["beside_arena_bytes"][note.what] = note.bytes;
  }
  return json;
}

std::string Headline(const TrainResults& results) {
  std::string line = StrCat(results.model, ", ", results.steps, " steps on ",
                            results.session.backend().name());
  if (results.ranks > 1) line += StrCat(" of ", results.ranks, " ranks");
  const char* before = ": ";
  const auto add = [&](const std::string& figure) {
    line += before + figure;
    before = ", ";
  };
  if (results.run.loss) {
    add(StrCat("training loss ", Fixed(*results.run.loss, 4)));
  }
  if (const auto& evaluation = results.evaluation) {
    add(StrCat("held-out loss ", Fixed(evaluation->loss, 4)));
    if (results.base) {
      add(StrCat("before ", Fixed(results.base->loss, 4)));
    }
    if (results.history != nullptr && results.history->best_step > 0) {
      add(StrCat("best ", Fixed(results.history->best_loss, 4), " after step ",
                 results.history->best_step));
    }
    if (evaluation->accuracy) {
      add(StrCat("held-out accuracy ", Fixed(100 * *evaluation->accuracy, 1),
                 " %"));
    }
  }
  if (results.run.skipped > 0) {
    line += StrCat(", ", results.run.skipped, " steps skipped");
  }
  return line;
}

std::string Details(const TrainResults& results) {
  std::string text =
      StrCat(ToText(results.report), "\narena of the run ",
             FormatBytes(results.memory.arena), " (", results.memory.arena,
             " bytes, all programs), peak memory of the process ",
             FormatBytes(PeakResidentBytes()));
  if (results.run.heap_allocations) {
    text +=
        StrCat(", heap allocations in steps ", *results.run.heap_allocations);
  }
  text += StrCat(", ", Fixed(results.seconds, 1), " s\n");
  const std::optional<Bytes> sent = BytesSentPerStep(results);
  if (results.ranks > 1 && sent) {
    text += StrCat("sent to other ranks by rank 0: ", FormatBytes(*sent), " (",
                   *sent, " bytes) a step\n");
  }
  for (const MemoryNote& note : results.session.backend().MemoryBesideArena()) {
    text += StrCat(note.what, ": ", FormatBytes(note.bytes), " (", note.bytes,
                   " bytes)\n");
  }
  return text;
}

}  // namespace stowage::tools
