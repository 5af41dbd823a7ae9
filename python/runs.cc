#include "python/runs.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/strings.h"
#include "python/errors.h"
#include "runtime/checkpoint.h"
#include "train/evaluation.h"
#include "train/state_backup.h"

namespace stowage::python {
namespace {

namespace py = pybind11;

// The value of StopAsked that ends a run; any nonzero number.
constexpr int kStopped = 1;

}  // namespace

PythonRun::PythonRun(Trainer& trainer, const Files& files) : trainer_(trainer) {
  trainer_.CheckUsable();
  start_.done = trainer_.steps();
  if (!files.log.empty()) {
    log_ = WithoutGil([&] { return RunLog::Open(files.log); });
  }
  if (files.path.empty()) return;
  checkpoints_ = WithoutGil([&] {
    return RunCheckpoints::Claim(files.path, files.series, trainer_.Notes());
  });
  if (!files.resumes) return;
  const std::optional<RunStart> resumed = trainer_.InRun(
      [&](Training& training) -> Result<std::optional<RunStart>> {
        const Result<CheckpointInfo> info = ReadCheckpointInfo(files.path);
        const int64_t steps = trainer_.steps();
        if (info.ok() && steps > 0 && info->step != steps) {
          return Error{
              ErrorCode::kInvalidArgument,
              StrCat("[fit] ", Quoted(files.path), " is of step ", info->step,
                     ", and the trainer has taken ", steps,
                     " steps; expected as many, or none; resume=False goes on "
                     "from the trainer's, and replaces the file")};
        }
        return checkpoints_->Resume(training);
      });
  if (!resumed) return;
  start_ = *resumed;
  is_resumed_ = true;
  trainer_.SetSteps(start_.done);
}

template <typename F>
void PythonRun::Call(F&& f) {
  if (raised_) return;
  trainer_.OutOfTurn([&] {
    try {
      f();
    } catch (py::error_already_set& raised) {
      raised_ = std::move(raised);
    }
  });
}

py::dict PythonRun::Take(const py::object& hooks, RunSpec spec, bool validates,
                         bool reads_values) {
  trainer_.CheckUsable();
  hooks_ = hooks;
  last_step_ = spec.last_step();
  validates_ = validates;
  reads_values_ = reads_values;
  fetched_ = written_ = start_.done;
  spec.seed = static_cast<int64_t>(trainer_.seed());
  spec.rate = [this](int64_t) { return rate_; };
  spec.group_input = [this](std::string_view input, int64_t) {
    const std::vector<std::string>& inputs = trainer_.group_inputs();
    const auto found = std::ranges::find(inputs, input);
    return group_values_[static_cast<size_t>(found - inputs.begin())];
  };
  std::optional<Result<RunResult>> result;
  trainer_.InRun([&](Training& training) -> Status {
    if (log_) {
      STOWAGE_RETURN_IF_ERROR(
          log_->Begin(start_.done, spec,
                      {.arena = training.session().arena_bytes(),
                       .budget = trainer_.plan()->spec().budget}));
    }
    result = stowage::Run(training, spec,
                          {.data = *this,
                           .observer = this,
                           .saver = checkpoints_ ? this : nullptr},
                          start_);
    if (log_) log_->End();
    return {};
  });
  views_.clear();
  hooks_ = py::none();
  if (raised_) throw *std::exchange(raised_, std::nullopt);
  const RunResult run = ValueOf(*std::move(result));
  ValueOf(run.saved);
  if (log_) ValueOf(log_->status());
  py::dict fields;
  fields["last_step"] = run.last_step;
  fields["stopped"] = run.stopped != 0  ? "callback"
                      : run.stops_early ? "patience"
                                        : "steps";
  fields["best_step"] = run.history.best_step;
  fields["best_loss"] = run.history.best_loss;
  fields["skipped"] = run.figures.skipped;
  return fields;
}

void PythonRun::Fetch(int64_t step) {
  const py::list arrays = hooks_.attr("batch")(step);
  const std::vector<ProgramInput>& wanted = trainer_.step_inputs();
  data_.clear();
  views_.clear();
  converted_.assign(wanted.size(), {});
  for (size_t i = 0; i < wanted.size(); ++i) {
    data_.push_back(views_.emplace_back(arrays[i], wanted[i].name)
                        .As(wanted[i].type, &converted_[i]));
  }
  rate_ = trainer_.RateAt(step);
  group_values_ = trainer_.group_values();
  fetched_ = step;
}

int PythonRun::StopAsked() {
  if (is_stopped_) return kStopped;
  Call([&] {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (fetched_ == written_ && written_ < last_step_) Fetch(written_ + 1);
  });
  return raised_ ? kStopped : 0;
}

Status PythonRun::WriteBatch(Runner& step, int64_t number) {
  const std::vector<ProgramInput>& wanted = trainer_.step_inputs();
  for (size_t i = 0; i < wanted.size(); ++i) {
    STOWAGE_RETURN_IF_ERROR(
        step.WriteBytes(wanted[i].name, wanted[i].type.dtype, data_[i]));
  }
  written_ = number;
  return {};
}

int64_t PythonRun::tokens_per_step(size_t /*shape*/) const {
  return trainer_.plan()->spec().batch;
}

Result<std::optional<Evaluation>> PythonRun::Evaluate(Training& training) {
  std::optional<Evaluation> evaluation;
  const bool averages = KeepsAverages(training.step().graph());
  trainer_.set_uses_averages(averages);
  Call([&] {
    const py::tuple made = hooks_.attr("validate")();
    evaluation = {.loss = made[0].cast<double>(),
                  .accuracy = made[1].cast<std::optional<double>>()};
  });
  trainer_.set_uses_averages(false);
  return evaluation;
}

void PythonRun::Report(const StepFigures& figures, const std::string& skipped) {
  trainer_.SetSteps(figures.step);
  Call([&] {
    const py::object stops = hooks_.attr("on_step")(
        figures.step, figures.epoch, figures.loss, figures.lr,
        figures.grad_norm, figures.loss_scale, figures.seconds, skipped);
    is_stopped_ = stops.cast<bool>();
  });
}

void PythonRun::OnEvaluation(int64_t step,
                             const std::optional<Evaluation>& evaluation,
                             bool counts) {
  if (log_) log_->OnEvaluation(step, evaluation, counts);
  if (!evaluation) return;
  Call([&] {
    const py::object stops = hooks_.attr("on_evaluation")(step);
    is_stopped_ |= stops.cast<bool>();
  });
}

Status PythonRun::OnUnsaved(const Error& error) {
  Call([&] { hooks_.attr("on_unsaved")(error.message); });
  return {};
}

Status PythonRun::Save(Training& training, int64_t step,
                       const EvaluationHistory& history,
                       std::optional<double> held_out_loss, bool best_alone) {
  if (step == start_.done) return {};
  return checkpoints_->Save(training, step, history, held_out_loss, best_alone);
}

namespace {

std::span<const int32_t> IntsOf(const ArrayView& array) {
  array.CheckIs({DType::kI32, array.type().shape});
  return {reinterpret_cast<const int32_t*>(array.data().data()),
          array.data().size() / sizeof(int32_t)};
}

void BindClassCounts(py::module_& module) {
  py::class_<ClassCounts>(module, "ClassCounts")
      .def(py::init<int64_t>(), py::arg("classes"))
      .def(
          "add",
          [](ClassCounts& self, const py::object& predictions,
             const py::object& labels, const py::object& ranks) {
            const ArrayView of_predictions(predictions, "predictions"),
                of_labels(labels, "labels"), of_ranks(ranks, "ranks");
            self.Add(IntsOf(of_predictions), IntsOf(of_labels),
                     IntsOf(of_ranks));
          },
          py::arg("predictions"), py::arg("labels"), py::arg("ranks"))
      .def(
          "value",
          [](const ClassCounts& self, const std::string& metric) {
            return self.Value(ValueOf(ParseMetric(metric)));
          },
          py::arg("metric"));
  module.def(
      "check_metric",
      [](const std::string& name) { ValueOf(ParseMetric(name)); },
      py::arg("name"));
}

}  // namespace

void BindRuns(py::module_& module) {
  BindClassCounts(module);
  py::class_<PythonRun>(module, "Run")
      .def(py::init([](Trainer& trainer, const std::string& path,
                       int64_t keep_last, bool keep_best, bool resumes,
                       const std::string& log) {
             return std::make_unique<PythonRun>(
                 trainer, PythonRun::Files{.path = path,
                                           .series = {.keep_last = keep_last,
                                                      .keep_best = keep_best},
                                           .resumes = resumes,
                                           .log = log});
           }),
           py::arg("trainer"), py::arg("path"), py::arg("keep_last"),
           py::arg("keep_best"), py::arg("resumes"), py::arg("log"),
           py::keep_alive<1, 2>())
      .def("done", &PythonRun::done)
      .def("is_resumed", &PythonRun::is_resumed)
      .def(
          "take",
          [](PythonRun& self, const py::object& hooks, int64_t steps,
             double steps_per_epoch, int64_t eval_every, int64_t save_every,
             int64_t patience, bool skips_nonfinite, bool validates,
             bool reads_values) {
            return self.Take(hooks,
                             {.steps = steps,
                              .steps_per_epoch = steps_per_epoch,
                              .save_every = save_every,
                              .eval_every = eval_every,
                              .patience = patience,
                              .skips_nonfinite = skips_nonfinite},
                             validates, reads_values);
          },
          py::arg("hooks"), py::arg("steps"), py::arg("steps_per_epoch"),
          py::arg("eval_every"), py::arg("save_every"), py::arg("patience"),
          py::arg("skips_nonfinite"), py::arg("validates"),
          py::arg("reads_values"));
}

}  // namespace stowage::python
