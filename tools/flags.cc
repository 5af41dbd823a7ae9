#include "tools/flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "autodiff/optimizer.h"
#include "autodiff/param_groups.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "nn/losses.h"
#include "planner/packing/problem.h"
#include "train/optimizer_choice.h"
#include "train/step_builder.h"

namespace stowage::tools {

void AddOptimizationOptions(Options& options, OptimizationFlags* flags) {
  options.Group("optimization");
  options.Add("--clip-norm", &flags->clip_norm,
              "Scale gradients so that their global norm is at most this; "
              "the updates then wait for all gradients; default: no clipping");
  options.Add("--ema", &flags->ema,
              "Keep an exponential moving average of each trained param with "
              "this decay, such as 0.999; evaluations, samples and weight "
              "files use the averages; default: none");
  options.Add(
      "--weight-decay", &flags->weight_decay,
      "Weight decay of all trained params, including biases and norms; "
      "decoupled from the gradient for AdamW, Lion, Adafactor and Muon; "
      "default: the model's with its default optimizer, else the optimizer's");
  options.AddEach("--no-decay", &flags->no_decay,
                  "Params without weight decay, by a pattern of names, such as "
                  "'*.bias'; may be repeated; default: none");
  options.Add(
      "--momentum", &flags->momentum,
      "Momentum of sgd, momentum, nesterov, rmsprop and muon; default: 0 "
      "for sgd and rmsprop, 0.95 for muon, else 0.9");
  options.Add("--label-smoothing", &flags->label_smoothing,
              "Label smoothing of a cross-entropy in training; not applied to "
              "the validation loss; default: 0");
}

Status SetOptimization(const OptimizationFlags& flags, TrainOptions* options) {
  if (flags.clip_norm) {
    // The step computes it in f32.
    if (!(*flags.clip_norm > 0 &&
          *flags.clip_norm <= std::numeric_limits<float>::max())) {
      return InvalidArgumentError(
          "[clip-norm] ", *flags.clip_norm,
          " is out of range; expected a number above 0 that "
          "is finite in f32");
    }
    options->clip_norm = flags.clip_norm;
  }
  if (flags.ema) {
    if (!(*flags.ema > 0 && *flags.ema < 1)) {
      return InvalidArgumentError("[ema] ", *flags.ema,
                                  " is out of range; expected a decay above 0 "
                                  "and below 1");
    }
    options->ema = flags.ema;
  }
  if (flags.momentum) {
    STOWAGE_ASSIGN_OR_RETURN(
        options->optimizer,
        WithMomentum(std::move(options->optimizer), *flags.momentum));
  }
  if (flags.weight_decay) {
    STOWAGE_ASSIGN_OR_RETURN(
        options->optimizer,
        WithDecay(std::move(options->optimizer), *flags.weight_decay));
  }
  return {};
}

ModelFn WithSmoothing(const OptimizationFlags& flags, ModelFn model) {
  if (!flags.label_smoothing) return model;
  return [model = std::move(model),
          smoothing = *flags.label_smoothing](int64_t batch) -> Result<Graph> {
    STOWAGE_ASSIGN_OR_RETURN(const Graph graph, model(batch));
    return WithLabelSmoothing(graph, smoothing);
  };
}

Status SetNoDecay(const OptimizationFlags& flags, TrainingSpec* training) {
  if (flags.no_decay.empty()) return {};
  TrainOptions& options = training->training;
  if (DecayOf(options.optimizer) == 0) {
    return InvalidArgumentError(
        "[no-decay] ", OptimizerName(options.optimizer),
        " has a weight decay of 0 here, so --no-decay ",
        Quoted(flags.no_decay.front()),
        " changes nothing; give --weight-decay with it");
  }
  STOWAGE_ASSIGN_OR_RETURN(const Graph model, training->model(training->batch));
  STOWAGE_ASSIGN_OR_RETURN(
      options.groups,
      WithoutDecay(model, std::move(options.groups), flags.no_decay));
  return {};
}

namespace {

template <typename T>
std::optional<T> Parse(std::string_view text) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

Status SetMinimum(double min_lr, LearningRateSchedule* schedule) {
  if (schedule->kind == ScheduleKind::kConstant) {
    return InvalidArgumentError(
        "[min-lr] a constant rate stays at its peak, and "
        "--min-lr ",
        min_lr,
        " says nothing; leave it away, or give another "
        "--schedule");
  }
  if (!(min_lr >= 0 && min_lr <= schedule->peak)) {
    return InvalidArgumentError("[min-lr] ", min_lr,
                                " is out of range; expected 0 to the learning "
                                "rate's peak, ",
                                schedule->peak);
  }
  schedule->final_factor = min_lr / schedule->peak;
  return {};
}

Status SetPower(double power, LearningRateSchedule* schedule) {
  if (schedule->kind != ScheduleKind::kPolynomial) {
    return InvalidArgumentError("[power] a ", ScheduleName(schedule->kind),
                                " rate has no power to set to ", power,
                                "; give --schedule polynomial with --power");
  }
  if (!(power > 0 && std::isfinite(power))) {
    return InvalidArgumentError("[power] ", power,
                                " is not a finite number above 0");
  }
  schedule->power = power;
  return {};
}

}  // namespace

void AddScheduleOptions(Options& options, ScheduleFlags* flags) {
  options.Group("optimization");
  options.Add("--lr", &flags->lr,
              "Peak of the learning rate; default: the model's");
  options.Add(
      "--schedule", &flags->schedule,
      StrCat("Learning rate schedule after the warm-up: ", ScheduleChoices(),
             ", as in transformers; wsd decays in the last fifth of "
             "the steps; default: the model's, cosine"));
  options.Add("--warmup", &flags->warmup,
              "Warm-up steps, or a fraction of all steps if below 1; default: "
              "0 with --schedule, else the model's");
  options.Add("--min-lr", &flags->min_lr,
              "Learning rate of the last step, or the lowest of inverse_sqrt; "
              "default: 0 with --schedule, else the model's");
  options.Add("--power", &flags->power,
              "Power of --schedule polynomial; default: 1, which is linear");
}

Result<LearningRateSchedule> ReadSchedule(
    const ScheduleFlags& flags, const LearningRateSchedule& defaults) {
  LearningRateSchedule schedule = defaults;
  if (flags.lr) {
    if (!(*flags.lr > 0) || !std::isfinite(*flags.lr)) {
      return InvalidArgumentError("[train] learning rate ", *flags.lr,
                                  " is not a positive number");
    }
    schedule.peak = *flags.lr;
  }
  if (!flags.schedule.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(schedule.kind, ParseSchedule(flags.schedule));
    schedule.warmup = 0;
    schedule.final_factor = 0;
  }
  if (flags.min_lr) {
    STOWAGE_RETURN_IF_ERROR(SetMinimum(*flags.min_lr, &schedule));
  }
  if (flags.power) STOWAGE_RETURN_IF_ERROR(SetPower(*flags.power, &schedule));
  return schedule;
}

Result<int64_t> ReadWarmup(const std::string& text, int64_t steps) {
  std::optional<int64_t> warmup = Parse<int64_t>(text);
  if (!warmup) {
    const std::optional<double> share = Parse<double>(text);
    if (!share || !(*share >= 0 && *share < 1)) {
      return InvalidArgumentError(
          "[warmup] ", Quoted(text),
          " is no number of steps, and no share of them "
          "from 0 up to 1");
    }
    warmup =
        static_cast<int64_t>(std::ceil(*share * static_cast<double>(steps)));
  }
  if (*warmup < 0 || (*warmup > 0 && *warmup >= steps)) {
    return InvalidArgumentError(
        "[warmup] a warm-up of ", *warmup, " steps in a run of ", steps,
        "; expected at least 0, and fewer than the run has");
  }
  return *warmup;
}

void AddPackerOptions(Options& options, PackerFlags* flags) {
  options.Group("memory");
  options.Add("--packer", &flags->packer,
              "linear, greedy, or best, which searches for some seconds");
  options.Add("--time-limit", &flags->time_limit,
              "Time limit of --packer best in seconds");
}

Result<packing::PackOptions> ReadPackerFlags(const PackerFlags& flags) {
  packing::PackOptions options;
  if (flags.packer == "linear") {
    options.packer = packing::Packer::kLinear;
  } else if (flags.packer == "greedy") {
    options.packer = packing::Packer::kGreedy;
  } else if (flags.packer == "best") {
    options.packer = packing::Packer::kBest;
  } else {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[packer] there is no packer ", Quoted(flags.packer),
                        "; expected linear, greedy or best")};
  }
  if (!flags.time_limit) return options;
  if (options.packer != packing::Packer::kBest) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[time-limit] the ", flags.packer,
                        " packer does not search; leave the limit out, or say "
                        "--packer best")};
  }
  constexpr double kMaxSeconds = 1e6;
  const double seconds = *flags.time_limit;
  if (!(seconds > 0 && seconds <= kMaxSeconds)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[time-limit] ", seconds,
                        " is out of range; expected seconds above 0, at most "
                        "1000000")};
  }
  options.deadline = packing::Clock::now() +
                     std::chrono::duration_cast<packing::Clock::duration>(
                         std::chrono::duration<double>(seconds));
  return options;
}

namespace {

// Bandwidths by the signalling rate in one direction: Ethernet and InfiniBand in bits, NVLink
// for all links of a GPU.
struct KnownLink {
  std::string_view name;
  double bytes_per_second;
};
constexpr std::array<KnownLink, 8> kLinks = {{{"1GbE", 0.125e9},
                                              {"10GbE", 1.25e9},
                                              {"25GbE", 3.125e9},
                                              {"100GbE", 12.5e9},
                                              {"200GbE", 25e9},
                                              {"400GbE", 50e9},
                                              {"NVLink3", 300e9},
                                              {"NVLink4", 450e9}}};

std::string LinkNames() {
  std::string names;
  for (const KnownLink& link : kLinks) names += StrCat(link.name, ", ");
  return names;
}

Result<Link> ParseLink(const std::string& text) {
  for (const KnownLink& link : kLinks) {
    if (text == link.name) return Link{text, link.bytes_per_second};
  }
  std::string_view size = text;
  if (size.ends_with("/s")) {
    size.remove_suffix(2);
    const Result<Bytes> bytes = ParseBytes(size);
    if (bytes.ok() && *bytes > 0) {
      return Link{text, static_cast<double>(*bytes)};
    }
  }
  return InvalidArgumentError("[link] there is no link ", Quoted(text),
                              "; expected ", LinkNames(),
                              "or what it carries, such as 2.5GB/s");
}

}  // namespace

void AddShardOption(Options& options, std::string* shard) {
  options.Group("memory");
  options.Add(
      "--shard", shard,
      "Sharding over ranks: none, states, gradients (and states), weights (and "
      "both), or auto, the first of these that fits the budget");
}

void AddRankOptions(Options& options, RankFlags* flags) {
  options.Group("memory");
  options.Add("--ranks", &flags->ranks,
              "Number of ranks; plans the memory of the first one");
  options.Limit("--ranks", 1, 1 << 20);
  AddShardOption(options, &flags->shard);
  options.Add("--link", &flags->link,
              StrCat("Link between ranks, to predict transfer times: ",
                     LinkNames(), "or bytes a second, such as 2.5GB/s"));
}

Result<std::vector<Sharding>> ReadShard(const std::string& shard) {
  if (shard == "auto") {
    return std::vector<Sharding>(kShardings.begin(), kShardings.end());
  }
  STOWAGE_ASSIGN_OR_RETURN(const Sharding one, ParseSharding(shard));
  return std::vector<Sharding>{one};
}

Result<RankPlan> ReadRankFlags(const RankFlags& flags) {
  RankPlan plan = {.ranks = flags.ranks};
  STOWAGE_ASSIGN_OR_RETURN(plan.shards, ReadShard(flags.shard));
  if (flags.ranks == 1) {
    if (!flags.link.empty()) {
      return InvalidArgumentError(
          "[link] --link is between ranks; give --ranks");
    }
    if (flags.shard != "none" && flags.shard != "auto") {
      return InvalidArgumentError(
          "[shard] one rank has nothing to split by --shard ", flags.shard,
          "; give --ranks");
    }
    plan.shards = {Sharding::kNone};
    return plan;
  }
  if (!flags.link.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(plan.link, ParseLink(flags.link));
  }
  return plan;
}

void SetRanks(const Ranks& ranks, TrainingSpec* training) {
  training->ranks = ranks;
  if (!training->optimizations) return;
  const int64_t part =
      PartOfRank(training->batch, ranks.ranks, ranks.rank).count;
  std::vector<int64_t>& micro_batches = training->optimizations->micro_batches;
  // A single number is exactly the requested one.
  if (micro_batches.size() > 1 && part > 0)
    micro_batches = MicroBatchesToTry(part);
}

}  // namespace stowage::tools
