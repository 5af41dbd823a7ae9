#include "tools/train_flags.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "autodiff/optimizer.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "runtime/checkpoint.h"
#include "tools/flags.h"
#include "train/evaluation.h"
#include "train/optimizer_choice.h"

namespace stowage::tools {
namespace {

// Reads when to evaluate, and when to stop early.
Status ReadEvaluations(const TrainFlags& flags, RunSpec* run) {
  if (flags.eval_every < 0 || flags.eval_every > kMaxCheckpointStep) {
    return InvalidArgumentError("[train] eval-every ", flags.eval_every,
                                " is out of range; expected 0 to ",
                                kMaxCheckpointStep);
  }
  if (flags.patience < 0) {
    return InvalidArgumentError("[train] patience ", flags.patience,
                                " is negative");
  }
  if (flags.patience > 0 && flags.eval_every == 0) {
    return InvalidArgumentError(
        "[train] --patience ", flags.patience,
        " counts evaluations; give --eval-every with it");
  }
  run->eval_every = flags.eval_every;
  run->patience = flags.patience;
  return {};
}

// Reads when to save, and the treatment of non-finite values.
Status ReadSaving(const TrainFlags& flags, RunSpec* run) {
  if (flags.save_every < 0 || flags.save_every > kMaxCheckpointStep) {
    return InvalidArgumentError("[train] save-every ", flags.save_every,
                                " is out of range; expected 0 to ",
                                kMaxCheckpointStep);
  }
  if (flags.keep_last < 1) {
    return InvalidArgumentError("[train] keep-last ", flags.keep_last,
                                " is below 1");
  }
  if (!flags.init.file.empty() && !flags.resume.empty()) {
    return InvalidArgumentError(
        "[train] both --init and --resume are given; a checkpoint has its "
        "own weights, give one");
  }
  if (!flags.continued.empty() &&
      !(flags.save.empty() && flags.resume.empty())) {
    return InvalidArgumentError(
        "[train] --continue resumes from its file and saves to it; leave "
        "--resume and "
        "--save away");
  }
  STOWAGE_RETURN_IF_ERROR(ReadInitRules("train", flags.init));
  const bool saves = !flags.checkpoint().empty();
  if (!saves && (flags.save_every > 0 || flags.keep_last > 1)) {
    return InvalidArgumentError(
        "[train] ", flags.save_every > 0 ? "--save-every" : "--keep-last",
        " needs a file to write; give --save or "
        "--continue");
  }
  STOWAGE_RETURN_IF_ERROR(ReadEvaluations(flags, run));
  if (flags.on_nonfinite != "stop" && flags.on_nonfinite != "skip") {
    return InvalidArgumentError("[train] on-nonfinite has no choice ",
                                Quoted(flags.on_nonfinite),
                                "; expected stop or skip");
  }
  if (flags.save_as != "whole" && flags.save_as != "sharded") {
    return InvalidArgumentError("[train] save-as has no choice ",
                                Quoted(flags.save_as),
                                "; expected whole or sharded");
  }
  if (flags.saves_shards() && !saves) {
    return InvalidArgumentError(
        "[train] --save-as sharded needs a file to write; give --save or "
        "--continue");
  }
  run->save_every = flags.save_every;
  run->skips_nonfinite = flags.on_nonfinite == "skip";
  return {};
}

}  // namespace

Status SetMetrics(const TrainFlags& flags, StepSpec* spec) {
  if (flags.metrics.empty()) return {};
  std::string_view rest = flags.metrics;
  while (true) {
    const size_t comma = rest.find(',');
    STOWAGE_ASSIGN_OR_RETURN(const Metric metric,
                             ParseMetric(rest.substr(0, comma)));
    if (std::ranges::find(spec->metrics, metric) != spec->metrics.end()) {
      return InvalidArgumentError("[metrics] ", MetricName(metric),
                                  " is given twice in ", Quoted(flags.metrics));
    }
    spec->metrics.push_back(metric);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  STOWAGE_ASSIGN_OR_RETURN(
      const Graph graph,
      ModelOf(*spec, ModelPurpose::kEvaluate)(*spec->options.batch));
  const std::optional<int64_t> classes = ClassesOf(graph);
  if (!classes) {
    return InvalidArgumentError(
        "[metrics] ", Quoted(flags.metrics), " of ", Quoted(spec->info.name),
        ": its loss is no cross-entropy of logits that it keeps; leave "
        "--metrics away");
  }
  for (const Metric metric : spec->metrics) {
    if (metric != Metric::kTop5 || *classes >= 5) continue;
    return InvalidArgumentError("[metrics] top5 is of 5 classes or more; ",
                                Quoted(spec->info.name), " has ", *classes);
  }
  spec->classes = *classes;
  return {};
}

void AddTrainOptions(Options& options, TrainFlags* flags) {
  AddRunOptions(options, flags);
  AddLoraOptions(options, &flags->model);
  AddOnnxOptions(options, &flags->onnx);
  options.Group("data");
  AddInputMapOption(options, &flags->arrays);
  options.Add("--shuffle", &flags->arrays.shuffle,
              "Order of the examples of an .npz for an ONNX file's model: "
              "seed, drawn by seed and step, or none, as stored");
  options.Add(
      "--hold-out", &flags->arrays.hold_out,
      "Fraction of an .npz to use as the validation set of an ONNX file's "
      "model, drawn by the seed, or with --shuffle none its end; default: 0");
  options.Group("output");
  options.AddOutput(
      "--save-onnx", &flags->save_onnx,
      "Write the ONNX file with the trained weights to this file at the end");
  options.Group("model");
  AddInitOptions(options, &flags->init);
  options.Group("run");
  options.Add("--metrics", &flags->metrics,
              StrCat("Metrics of a classifier's evaluations, comma-separated: ",
                     MetricChoices(), "; default: none"));
  options.Group("output");
  options.AddOutput("--save-weights", &flags->save_weights,
                    "Write only the weights to this file at the end: "
                    "safetensors, or an NPZ if its name ends in .npz");
  options.Group("optimization");
  options.AddFlag("--fit-optimizer", &flags->fit_optimizer,
                  "Print the memory with each optimizer, and whether it fits "
                  "the budget, without training");
  AddLoopOptions(options, flags);
  for (const char* const unused : {"--save",
                                   "--save-weights",
                                   "--save-onnx",
                                   "--continue",
                                   "--svg",
                                   "--html",
                                   "--log",
                                   "--sample",
                                   "--resume",
                                   "--init",
                                   "--init-rename",
                                   "--init-transpose",
                                   "--init-allow-missing",
                                   "--init-allow-unused",
                                   "--optimizer",
                                   "--lr",
                                   "--weight-decay",
                                   "--momentum",
                                   "--schedule",
                                   "--warmup",
                                   "--min-lr",
                                   "--power",
                                   "--steps",
                                   "--epochs",
                                   "--stop-at",
                                   "--eval-every",
                                   "--patience",
                                   "--metrics",
                                   "--check",
                                   "--on-nonfinite"}) {
    options.Exclude("--fit-optimizer", unused);
  }
  options.ApplyTo({"--model"}, {"--dtype", "--seq", "--tokenizer", "--sample"});
  options.ApplyTo({"--onnx"},
                  {"--dim", "--shape", "--loss", "--freeze", "--trainable",
                   "--input-map", "--shuffle", "--hold-out", "--save-onnx"});
}

void AddLoopOptions(Options& options, TrainFlags* flags) {
  options.Group("run");
  options.Add("--steps", &flags->steps,
              "Steps of the whole run, including the learning rate schedule; "
              "default: the model's");
  options.Add("--epochs", &flags->epochs,
              "Passes over the training set, instead of --steps");
  options.Exclude("--epochs", "--steps");
  options.Add("--stop-at", &flags->stop_at,
              "Stop after this step, as if interrupted; --resume continues bit "
              "for bit");
  AddScheduleOptions(options, &flags->schedule);
  options.Group("run");
  options.AddFlag("--check", &flags->check,
                  "Run op by op, and name the op that fails or computes the "
                  "first non-finite value; slow");
  AddShardOption(options, &flags->shard);
  options.Group("run");
  options.AddOutput("--save", &flags->save,
                    "Write a checkpoint to this file at the end, and when "
                    "SIGINT, SIGTERM or SIGHUP stops the run");
  options.Add("--save-as", &flags->save_as,
              "Form of checkpoints: whole, one file; or sharded, a folder that "
              "all ranks see, to which each writes its part");
  options.Add("--save-every", &flags->save_every,
              "Also write a checkpoint every N steps, and the best one by "
              "validation loss, as NAME.best.EXTENSION");
  options.Add("--keep-last", &flags->keep_last,
              "Number of the last checkpoints to keep, as "
              "NAME.step-N.EXTENSION, if more than one");
  options.Add(
      "--eval-every", &flags->eval_every,
      "Evaluate the validation set every N steps, and with --save keep the "
      "best checkpoint, as NAME.best.EXTENSION; default: 0, only at the end");
  options.Add("--patience", &flags->patience,
              "Stop after this number of evaluations without a lower "
              "validation loss; default: 0, never");
  options.Group("output");
  options.AddOutput(
      "--log", &flags->log,
      "Write a row for each step to this CSV file, or a TensorBoard event file "
      "to this folder (NAME/ or an existing one); a resumed run appends");
  options.Group("run");
  options.Add("--on-nonfinite", &flags->on_nonfinite,
              "When a loss or an update is non-finite: stop, or skip that "
              "step, which copies params and states every step; --loss-scale "
              "skips updates without copies");
  options.Add("--resume", &flags->resume, "Resume from this checkpoint");
  options.AddOutput("--continue", &flags->continued,
                    "Resume from this checkpoint if it exists, and save to it, "
                    "for a command that is restarted until the run is done");
  options.Group("output");
  options.Add("--sample", &flags->sample,
              StrCat("Characters or tokens that a text model generates at the "
                     "end; 0 with --json; default: ",
                     flags->default_sample));
  options.AddOutput("--svg", &flags->svg,
                    "Write an SVG image of the plan to this file");
  options.AddOutput("--html", &flags->html,
                    "Write the plans of the run and its losses to this file as "
                    "an interactive page");
  options.AddFlag("--json", &flags->json,
                  "Print one JSON object a step, and one at the end");
}

Status SetSteps(const TrainFlags& flags, int64_t steps, RunSpec* run) {
  if (steps < 1)
    return InvalidArgumentError("[train] steps ", steps, " is below 1");
  if (steps > kMaxCheckpointStep) {
    return InvalidArgumentError("[train] steps ", steps,
                                " is out of range; expected at most ",
                                kMaxCheckpointStep);
  }
  run->steps = steps;
  run->stop_at = flags.stop_at.value_or(steps);
  if (run->stop_at < 1 || run->stop_at > steps) {
    return InvalidArgumentError("[train] stop-at ", run->stop_at,
                                " is out of range; expected 1 to ", steps);
  }
  if (flags.schedule.warmup.empty()) return {};
  STOWAGE_ASSIGN_OR_RETURN(run->schedule.warmup,
                           ReadWarmup(flags.schedule.warmup, steps));
  return {};
}

Result<int64_t> StepsOfEpochs(int64_t epochs, int64_t examples, int64_t batch) {
  const std::optional<int64_t> all = CheckedMul(epochs, examples);
  if (!all) {
    return InvalidArgumentError(
        "[train] epochs ", epochs, " of ", examples,
        " examples are more examples than 64 bits count");
  }
  return *all / batch + (*all % batch == 0 ? 0 : 1);
}

Result<RunSpec> ReadTrainFlags(const TrainFlags& flags, const StepSpec& spec) {
  RunSpec run;
  run.seed = flags.seed;
  STOWAGE_RETURN_IF_ERROR(ReadSaving(flags, &run));
  const TrainingDefaults& defaults = spec.info.training;
  LearningRateSchedule schedule = defaults.schedule;
  const Optimizer& optimizer = spec.training.training.optimizer;
  if (!IsOfModel(optimizer, defaults)) {
    // The model's learning rate suits only the model's optimizer.
    schedule.peak = DefaultLearningRate(optimizer);
  }
  STOWAGE_ASSIGN_OR_RETURN(run.schedule,
                           ReadSchedule(flags.schedule, schedule));
  if (flags.epochs.value_or(1) < 1) {
    return InvalidArgumentError("[train] epochs ", *flags.epochs,
                                " is below 1");
  }
  if (!flags.epochs) {
    STOWAGE_RETURN_IF_ERROR(
        SetSteps(flags, flags.steps.value_or(defaults.steps), &run));
  }
  if (flags.sample_length() < 0) {
    return InvalidArgumentError("[train] sample ", flags.sample_length(),
                                " is negative");
  }
  if (flags.json && flags.sample.value_or(0) > 0) {
    return InvalidArgumentError(
        "[train] --json prints no sample, and --sample ", *flags.sample,
        " asks for one; leave one of them out");
  }
  return run;
}

}  // namespace stowage::tools
