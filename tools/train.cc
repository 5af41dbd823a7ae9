// stowage train trains a built-in model or an ONNX file's; stowage finetune trains a published
// language model or classifier further.

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/tensor_type.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/model_flags.h"
#include "tools/onnx_flags.h"
#include "tools/options.h"
#include "tools/rank_run.h"
#include "tools/run_training.h"
#include "tools/train_flags.h"
#include "tools/tuning.h"

namespace stowage::tools {
namespace {

// The step of a built-in model, or an ONNX file's.
Result<StepSpec> ReadTrainSpec(const TrainFlags& flags) {
  if (flags.model.lora_rank && !flags.save_onnx.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "[train] --save-onnx has no place for adapters; leave "
                 "--lora-rank away, or --save-weights them"};
  }
  STOWAGE_ASSIGN_OR_RETURN(StepSpec spec,
                           ReadStep("train", flags, flags.onnx, flags.arrays));
  STOWAGE_RETURN_IF_ERROR(SetMetrics(flags, &spec));
  return spec;
}

int RunTrain(const TrainFlags& flags) {
  return RunOnRanks([&](RankRun& ranks) {
    const Result<StepSpec> spec = ReadTrainSpec(flags);
    return spec.ok() ? RunTraining(flags, *spec, ranks) : Fail(spec.error());
  });
}

}  // namespace

void AddTrain(Program& program) {
  Options options = program.AddSubcommand(
      "train", "Train a model inside a memory budget",
      "stowage train --model mlp --data digits.csv --steps 200 --budget 4MiB");
  const auto flags = std::make_shared<TrainFlags>();
  AddTrainOptions(options, flags.get());
  options.OnRun([flags] { return RunTrain(*flags); });
}

namespace {

struct FinetuneFlags {
  TrainFlags train;
  TuningFlags tuning;
};

constexpr int64_t kUsualSeq = 256;
// Defaults for classifiers of texts.
constexpr int64_t kUsualTextSeq = 128, kUsualTextBatch = 16;

// Defaults for adapters, those usual with PEFT; a whole model needs a smaller learning rate.
TrainingDefaults DefaultsOf(bool has_adapters) {
  return {.optimizer = "adamw",
          .steps = 200,
          .schedule = {.peak = has_adapters ? 2e-4 : 2e-5,
                       .warmup = 10,
                       .final_factor = 0.1}};
}

// Checks that options of samples come with samples.
Status CheckSamples(const FinetuneFlags& flags) {
  if (flags.tuning.objective == "classify") {
    if (flags.train.sample.value_or(0) == 0) return {};
    return InvalidArgumentError("[objective] --sample ", *flags.train.sample,
                                " is for models that predict tokens, and "
                                "--objective classify trains none; leave it "
                                "out");
  }
  if (flags.train.chat || flags.train.sample_length() > 0) return {};
  const TuningFlags& tuning = flags.tuning;
  const std::pair<std::string_view, bool> given[] = {
      {"--prompt", !tuning.prompt.empty()},
      {"--temperature", tuning.temperature.has_value()},
      {"--top-k", tuning.top_k != 0},
      {"--top-p", tuning.top_p.has_value()}};
  for (const auto& [name, is_given] : given) {
    if (!is_given) continue;
    return InvalidArgumentError("[finetune] ", name,
                                " is for samples, and --sample 0 draws none; "
                                "leave one of them out");
  }
  return {};
}

// Checks that KTO's batch is not split: its loss uses a mean over the batch.
Status CheckBatchIsWhole(const ModelFlags& model, const Tuning& tuning,
                         const RankRun& ranks) {
  const auto& preference = tuning.model.options().preference;
  if (!preference || IsPaired(preference->objective) ||
      model.allow_batch_change) {
    return {};
  }
  const std::string& parts = model.micro_batches;
  const bool is_divided = !parts.empty() && parts != "1" && parts != "auto";
  if (!is_divided && ranks.alone()) return {};
  return InvalidArgumentError(
      "[objective] kto compares each answer with a mean over its batch, which ",
      is_divided ? StrCat("--micro-batches ", parts)
                 : StrCat(ranks.ranks(), " ranks"),
      " would divide; take the batch whole, or allow the change "
      "(--allow-batch-change)");
}

Result<StepSpec> ReadFinetuneSpec(FinetuneFlags& flags, const RankRun& ranks) {
  const ModelFlags& model = flags.train.model;
  StepSpec spec;
  STOWAGE_ASSIGN_OR_RETURN(spec.options.dtype, ParseDType(model.dtype));
  const bool classifies = flags.tuning.objective == "classify";
  spec.options.batch = model.batch.value_or(classifies ? kUsualTextBatch : 1);
  spec.options.seq = model.seq.value_or(classifies ? kUsualTextSeq : kUsualSeq);
  flags.tuning.data = flags.train.data;
  flags.tuning.tokenizer = flags.train.tokenizer;
  flags.tuning.chats = flags.train.chat;
  STOWAGE_ASSIGN_OR_RETURN(
      Tuning tuning,
      ReadTuning(flags.tuning, spec.options.dtype, *spec.options.seq));
  if (flags.train.chat && flags.train.json) {
    return Error{ErrorCode::kInvalidArgument,
                 "[finetune] --json prints objects alone; leave --chat away"};
  }
  STOWAGE_RETURN_IF_ERROR(CheckBatchIsWhole(model, tuning, ranks));
  const bool has_adapters = tuning.model.options().lora.has_value();
  if (!has_adapters && !(flags.train.save_adapter.empty() &&
                         (classifies || flags.train.save_merged.empty()))) {
    return Error{ErrorCode::kInvalidArgument,
                 classifies
                     ? "[finetune] --full trains no adapter; leave "
                       "--save-adapter away, --save-merged writes the model"
                     : "[finetune] --full trains no adapter; leave "
                       "--save-adapter and --save-merged away, --save-weights "
                       "writes the weights"};
  }
  STOWAGE_RETURN_IF_ERROR(CheckSamples(flags));
  if (const auto& preference = tuning.model.options().preference;
      preference && model.optimization.label_smoothing) {
    return InvalidArgumentError(
        "[finetune] --label-smoothing is of single tokens, and --objective ",
        PreferenceObjectiveName(preference->objective),
        " judges whole answers; leave it out");
  }
  spec.tuning = std::make_shared<const Tuning>(std::move(tuning));
  spec.info.name = spec.tuning->model.base().model().family;
  spec.info.data = ModelData::kText;
  spec.info.training = DefaultsOf(has_adapters);
  STOWAGE_ASSIGN_OR_RETURN(
      spec.training,
      ReadTrainingFlags(model, spec.info.training, *spec.options.batch));
  // All programs but those of shapes have the longest length.
  const std::vector<int64_t>& lengths = spec.tuning->lengths;
  spec.options.seq = lengths.front();
  spec.training.model =
      WithSmoothing(model.optimization, ModelOf(spec, ModelPurpose::kTrain));
  for (size_t i = 1; i < lengths.size(); ++i) {
    spec.training.shapes.push_back(
        {.name = StrCat("train of ", lengths[i], " tokens"),
         .model = WithSmoothing(
             model.optimization,
             spec.tuning->model.ModelOf(ModelPurpose::kTrain, lengths[i]))});
  }
  spec.training.training.groups = spec.tuning->model.groups();
  STOWAGE_RETURN_IF_ERROR(SetNoDecay(model.optimization, &spec.training));
  return spec;
}

int RunFinetune(FinetuneFlags& flags) {
  flags.train.weights = flags.tuning.weights;
  return RunOnRanks([&](RankRun& ranks) {
    const Result<StepSpec> spec = ReadFinetuneSpec(flags, ranks);
    return spec.ok() ? RunTraining(flags.train, *spec, ranks)
                     : Fail(spec.error());
  });
}

}  // namespace

void AddFinetune(Program& program) {
  Options options = program.AddSubcommand(
      "finetune", "Fine-tune a published language model inside a memory budget",
      "stowage finetune --weights SmolLM2-135M.Q4_1.gguf --data novel.txt "
      "--budget 200MB --save-adapter tuned");
  const auto flags = std::make_shared<FinetuneFlags>();
  TuningFlags& tuning = flags->tuning;
  options.Group("model");
  options.Add("--weights", &tuning.weights,
              "A GGUF file, a safetensors file beside its config.json, or a "
              "folder of Hugging Face's");
  options.Require("--weights");
  options.Add("--lora-rank", &tuning.lora_rank, "Of the adapters");
  options.Add("--lora-alpha", &tuning.lora_alpha,
              "Adapters count alpha / rank; default: 16");
  options.Add("--lora-dropout", &tuning.lora_dropout,
              "Part of what goes into an adapter that is dropped; default: 0");
  options.AddEach("--lora-targets", &tuning.lora_targets,
                  "Layers to put an adapter beside, by name, by the end of it "
                  "behind a dot, as q_proj, or by a pattern; may be repeated; "
                  "default: all linear layers but the head");
  options.AddFlag("--rslora", &tuning.rslora,
                  "Adapters count alpha / sqrt(rank), as PEFT's use_rslora");
  options.AddFlag("--dora", &tuning.dora,
                  "Adapters train the length of each output's weights, too, as "
                  "PEFT's use_dora");
  options.Add(
      "--lora-init", &tuning.lora_init,
      "What adapters begin with: uniform, lora_A at random and lora_B at "
      "zero; or pissa, the principal singular vectors of the weights, "
      "which are taken out of the base; default: uniform");
  options.Add("--lora-plus", &tuning.lora_plus,
              "How many times the learning rate of lora_A is that of lora_B; "
              "default: 1");
  options.AddFlag("--full", &tuning.full,
                  "Train every weight instead of adapters");
  options.Add("--adapter", &tuning.adapter,
              "Begin with the adapter in this folder, as PEFT keeps it");
  options.Exclude("--full", "--adapter");
  for (const char* const own :
       {"--lora-rank", "--lora-alpha", "--lora-dropout", "--lora-targets",
        "--rslora", "--dora", "--lora-init"}) {
    options.Exclude("--full", own);
    options.Exclude("--adapter", own);
  }
  options.Exclude("--full", "--lora-plus");
  options.Group("objective");
  options.Add("--objective", &tuning.objective,
              "What is learnt: sft, the texts; from pairs of answers dpo, ipo, "
              "orpo or simpo; from answers that are good or bad kto; of an "
              "encoder, the labels of texts classify; default: sft");
  options.Add("--beta", &tuning.beta,
              "How far preferences may move the model from what it was; of "
              "orpo, their weight; default: 0.1, of simpo 2");
  options.Add("--gamma", &tuning.gamma,
              "By how much simpo's chosen answers are to be better; default: "
              "0.5");
  options.Add("--hidden-dropout", &tuning.hidden_dropout,
              "Of an encoder that classifies: of the embeddings and of what "
              "joins the residual stream; default: that of config.json");
  options.Add("--attention-dropout", &tuning.attention_dropout,
              "Of an encoder that classifies: of the probabilities of "
              "attention, which only 0 does not store; default: that of "
              "config.json");
  options.Add("--classifier-dropout", &tuning.classifier_dropout,
              "Of an encoder that classifies: before the layers of its head; "
              "default: that of config.json");
  options.Group("data");
  options.Add(
      "--data", &flags->train.data,
      "Text; files of tokens (.bin, .npy), or a folder of them; or JSON "
      "lines (.jsonl) with prompt and completion, messages, or text; of "
      "preferences with prompt, chosen and "
      "rejected, of kto with prompt, completion and label; to "
      "classify, .jsonl, .csv or .tsv with text, label and, of pairs, "
      "text_pair");
  options.Require("--data");
  options.Add("--tokenizer", &flags->train.tokenizer,
              "A tokenizer.json, if not that of the weights");
  options.Add("--lengths", &tuning.lengths,
              "Lengths of sequences for examples, numbers with commas between, "
              "or auto, chosen by the data: a batch takes the shortest that "
              "holds it; default: that of --seq alone");
  options.AddFlag("--pack", &tuning.pack,
                  "Put several examples into a sequence, which do not see each "
                  "other");
  options.Exclude("--pack", "--lengths");
  options.Add("--too-long", &tuning.too_long,
              "What becomes of examples longer than a sequence: cut or drop; "
              "default: cut");
  options.Add("--held-out-batches", &tuning.held_out_batches,
              "Batches to judge by, at most");
  AddStepOptions(options, &flags->train);
  flags->train.default_sample = 64;
  AddLoopOptions(options, &flags->train);
  options.Group("run");
  options.AddFlag("--dry-run", &flags->train.dry_run,
                  "Plan, say what it takes, and stop");
  options.Group("output");
  options.AddOutput("--save-adapter", &flags->train.save_adapter,
                    "Write the adapter to this folder at the end, for PEFT "
                    "too, or to a .gguf "
                    "file, for llama.cpp");
  options.AddOutput(
      "--save-merged", &flags->train.save_merged,
      "Write all weights to this safetensors or GGUF file (.gguf) at the end, "
      "with the adapter's share added; of a classifier, the model to this "
      "folder, as transformers loads it");
  options.Add(
      "--merged-type", &flags->train.merged_type,
      "Types of the weights in a GGUF file: f32, f16, bf16, q8_0, q4_0, "
      "q4_1, q5_0, q5_1, q4_k_s, q4_k_m, q5_k_s, q5_k_m or q6_k; "
      "default: those of --weights where that is a GGUF file, else f16");
  options.AddOutput("--save-weights", &flags->train.save_weights,
                    "Write all weights to this file at the end");
  options.Add("--prompt", &tuning.prompt,
              "What samples go on from; default: how the held-out part begins");
  options.Add("--temperature", &tuning.temperature,
              "Of samples; 0 draws the likeliest token always; default: 0.8");
  options.Add("--top-k", &tuning.top_k,
              "Draw among so many of the likeliest tokens alone; 0: all");
  options.Add("--top-p", &tuning.top_p,
              "Draw among the likeliest tokens that together have this "
              "probability; default: 1");
  options.AddFlag("--chat", &flags->train.chat,
                  "Talk to the model at the end: each line of stdin is a "
                  "message, each answer a line of stdout");
  for (const char* const of_samples :
       {"--prompt", "--temperature", "--top-k", "--top-p", "--chat"}) {
    options.Exclude("--json", of_samples);
  }
  options.Exclude("--resume", "--adapter");  // the checkpoint has its own
  options.OnRun([flags] { return RunFinetune(*flags); });
}

}  // namespace stowage::tools
