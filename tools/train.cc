// stowage train trains a built-in model or an ONNX file's; stowage finetune trains a published
// model further, which predicts tokens, or classifies or embeds texts.

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

// The default batch of a model of whole texts.
constexpr int64_t kUsualTextBatch = 16;

// The largest number of tokens in a batch: so many texts of so many tokens can be counted in
// 64 bits.
constexpr int64_t kMaxTokens = int64_t{1} << 40;

Status CheckBatchOfTexts(int64_t batch, int64_t seq) {
  if (batch < 1) {
    return InvalidArgumentError("[train] batch ", batch, " is below 1");
  }
  if (batch > kMaxTokens / seq) {
    return InvalidArgumentError("[train] batch ", batch, " of ", seq,
                                " tokens each is larger than ", kMaxTokens,
                                " tokens");
  }
  return {};
}

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
  const std::string& objective = flags.tuning.objective;
  if (objective == "classify" || objective == "embed") {
    if (flags.train.sample.value_or(0) == 0) return {};
    return InvalidArgumentError("[objective] --sample ", *flags.train.sample,
                                " is for models that predict tokens, and "
                                "--objective ",
                                objective, " trains none; leave it out");
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
  flags.tuning.data = flags.train.data;
  flags.tuning.tokenizer = flags.train.tokenizer;
  flags.tuning.chats = flags.train.chat;
  STOWAGE_ASSIGN_OR_RETURN(
      Tuning tuning, ReadTuning(flags.tuning, spec.options.dtype, model.seq));
  // Such a model is trained on whole texts, and saved as a folder.
  const bool is_of_texts = tuning.classifies() || tuning.embeds();
  spec.options.batch = model.batch.value_or(is_of_texts ? kUsualTextBatch : 1);
  STOWAGE_RETURN_IF_ERROR(
      CheckBatchOfTexts(*spec.options.batch, tuning.lengths.front()));
  if (flags.train.chat && flags.train.json) {
    return Error{ErrorCode::kInvalidArgument,
                 "[finetune] --json prints objects alone; leave --chat away"};
  }
  STOWAGE_RETURN_IF_ERROR(CheckBatchIsWhole(model, tuning, ranks));
  const bool has_adapters = tuning.model.options().lora.has_value();
  if (!has_adapters && !(flags.train.save_adapter.empty() &&
                         (is_of_texts || flags.train.save_merged.empty()))) {
    return Error{ErrorCode::kInvalidArgument,
                 is_of_texts
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
  if (tuning.embeds() && model.optimization.label_smoothing) {
    return InvalidArgumentError(
        "[finetune] --label-smoothing is of labels, and --objective embed has "
        "none; leave it out");
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
              "A GGUF file, a safetensors file next to its config.json, or a "
              "Hugging Face folder");
  options.Require("--weights");
  options.Add("--lora-rank", &tuning.lora_rank, "Rank of the adapters");
  options.Add(
      "--lora-alpha", &tuning.lora_alpha,
      "Alpha of the adapters, which are scaled by alpha / rank; default: 16");
  options.Add("--lora-dropout", &tuning.lora_dropout,
              "Dropout of the adapters' inputs; default: 0");
  options.AddEach("--lora-targets", &tuning.lora_targets,
                  "Layers with an adapter, by name, by suffix after a dot, "
                  "such as q_proj, or by a pattern; may be repeated; default: "
                  "all linear layers except the head");
  options.AddFlag(
      "--rslora", &tuning.rslora,
      "Scale adapters by alpha / sqrt(rank), like PEFT's use_rslora");
  options.AddFlag(
      "--dora", &tuning.dora,
      "Also train the magnitude of each output (DoRA), like PEFT's use_dora");
  options.Add("--lora-init", &tuning.lora_init,
              "Initialization of adapters: uniform, with lora_A at random and "
              "lora_B zero; or pissa, the principal singular vectors of the "
              "weights, which are subtracted from the base; default: uniform");
  options.Add(
      "--lora-plus", &tuning.lora_plus,
      "Ratio of lora_B's learning rate to lora_A's (LoRA+); default: 1");
  options.AddFlag("--full", &tuning.full,
                  "Train every weight instead of adapters");
  options.Add("--adapter", &tuning.adapter,
              "Start from the adapter in this folder, in PEFT's format");
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
              "Objective: sft; dpo, ipo, orpo or simpo for pairs of answers; "
              "kto for good and bad answers; classify for an encoder and "
              "labels of texts; embed for embeddings of queries and "
              "documents; default: sft");
  options.Add("--beta", &tuning.beta,
              "Beta of the preference loss; for orpo, the weight of the "
              "preferences; default: 0.1, for simpo 2");
  options.Add("--gamma", &tuning.gamma, "Target margin of simpo; default: 0.5");
  options.Add("--hidden-dropout", &tuning.hidden_dropout,
              "Dropout of embeddings and residual branches in an encoder; "
              "default: that of config.json");
  options.Add("--attention-dropout", &tuning.attention_dropout,
              "Dropout of attention probabilities in an encoder; they are not "
              "stored if it is 0; default: that of config.json");
  options.Add("--classifier-dropout", &tuning.classifier_dropout,
              "Dropout before the layers of an encoder's head; default: that "
              "of config.json");
  options.Add("--pooling", &tuning.pooling,
              "How the tokens of a text become its embedding: mean, cls or "
              "lasttoken; default: as the model's modules.json says, or mean");
  options.Add("--similarity-scale", &tuning.similarity_scale,
              "Factor of similarities in the contrastive loss, the inverse of "
              "its temperature; default: 20");
  options.AddFlag("--symmetric", &tuning.symmetric,
                  "Also find the query of each document: the loss is the mean "
                  "of both directions");
  options.Add("--negatives", &tuning.negatives,
              "Negatives of each query in a batch, drawn from its own; "
              "default: the fewest that a query has");
  options.Add("--query-prompt", &tuning.query_prompt,
              "Text before each query; default: that of "
              "config_sentence_transformers.json, if any");
  options.Add("--document-prompt", &tuning.document_prompt,
              "Text before each document; default: that of "
              "config_sentence_transformers.json, if any");
  options.Group("data");
  options.Add("--data", &flags->train.data,
              "A text; token files (.bin, .npy) or a folder of them; JSON "
              "lines (.jsonl) with prompt and completion, messages, or text; "
              "for preferences with prompt, chosen and rejected, for kto with "
              "prompt, completion and label; for classify, .jsonl, .csv or "
              ".tsv with text, label and, for pairs, text_pair; for embed, "
              ".jsonl with query, positive and negative, or pos and neg");
  options.Require("--data");
  options.Add("--tokenizer", &flags->train.tokenizer,
              "A tokenizer.json to use instead of that of the weights");
  options.Add("--lengths", &tuning.lengths,
              "Sequence lengths, comma-separated, or auto, chosen from the "
              "data: a batch uses the shortest that holds it; default: --seq");
  options.AddFlag(
      "--pack", &tuning.pack,
      "Pack several examples into a sequence, without attention between them");
  options.Exclude("--pack", "--lengths");
  options.Add("--too-long", &tuning.too_long,
              "Treatment of examples longer than a sequence: cut or drop; "
              "default: cut");
  options.Add("--held-out-batches", &tuning.held_out_batches,
              "Maximum number of validation batches");
  AddStepOptions(options, &flags->train);
  flags->train.default_sample = 64;
  AddLoopOptions(options, &flags->train);
  options.Group("run");
  options.AddFlag("--dry-run", &flags->train.dry_run,
                  "Plan the run, print its memory and speed, and stop");
  options.Group("output");
  options.AddOutput("--save-adapter", &flags->train.save_adapter,
                    "Write the adapter at the end, to this folder in PEFT's "
                    "format, or to a .gguf file for llama.cpp");
  options.AddOutput(
      "--save-merged", &flags->train.save_merged,
      "Write all weights with merged adapters to this safetensors or GGUF file "
      "(.gguf) at the end; for classify and embed, a folder for transformers "
      "or sentence-transformers");
  options.Add("--merged-type", &flags->train.merged_type,
              "Types of the weights in a GGUF file: f32, f16, bf16, q8_0, "
              "q4_0, q4_1, q5_0, q5_1, q4_k_s, q4_k_m, q5_k_s, q5_k_m or q6_k; "
              "default: those of --weights if it is a GGUF file, else f16");
  options.AddOutput("--save-weights", &flags->train.save_weights,
                    "Write all weights to this file at the end");
  options.Add("--prompt", &tuning.prompt,
              "Text that samples continue; default: the beginning of the "
              "validation set");
  options.Add("--temperature", &tuning.temperature,
              "Temperature of samples; 0 always takes the most likely token; "
              "default: 0.8");
  options.Add("--top-k", &tuning.top_k,
              "Sample from this number of the most likely tokens; 0: from all");
  options.Add("--top-p", &tuning.top_p,
              "Sample from the most likely tokens that together have this "
              "probability; default: 1");
  options.AddFlag("--chat", &flags->train.chat,
                  "Chat with the model at the end: each line of stdin is a "
                  "message, each answer a line of stdout");
  for (const char* const of_samples :
       {"--prompt", "--temperature", "--top-k", "--top-p", "--chat"}) {
    options.Exclude("--json", of_samples);
  }
  options.Exclude("--resume", "--adapter");  // the checkpoint has its own
  options.OnRun([flags] { return RunFinetune(*flags); });
}

}  // namespace stowage::tools
