// How `stowage train` updates params: by which learning rates, beside the formulas by hand; and
// loss scaling in f16: its reports, and when it ends.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

using Strings = std::vector<std::string>;
using Weights = std::map<std::string, std::vector<float>>;

struct Trained {
  std::vector<Json> lines;
  Weights weights;  // at the end
};

// A run of the model of TrainMlp from its seed's weights, at a constant rate.
Trained TrainFor(int steps, const std::string& lr, Strings more) {
  const std::string path = TempPath("weights.npz");
  more.insert(more.end(), {"--steps", StrCat(steps), "--lr", lr, "--schedule",
                           "constant", "--save-weights", path});
  Trained trained{.lines = TrainMlp(more), .weights = {}};
  const auto arrays = ParseNpz(ReadAll(path), path);
  REQUIRE(arrays.ok());
  for (const NamedArray& array : *arrays) {
    trained.weights[array.name] = ValuesOf<float>(array.array);
  }
  return trained;
}

// No update is seen in f32 at this rate.
Weights AtFirst() {
  return TrainFor(1, "1e-30", {"--optimizer", "sgd"}).weights;
}

bool IsBias(const std::string& name) { return name.ends_with(".bias"); }

TEST_CASE("AdamW decays weights by lr * decay * w, and none of --no-decay") {
  const Weights first = AtFirst();
  REQUIRE(first.size() == 6);
  const auto train = [](Strings more) {
    more.insert(more.end(), {"--optimizer", "adamw"});
    return TrainFor(1, "0.25", more).weights;
  };
  const Weights without = train({"--weight-decay", "0"});
  const Weights with = train({"--weight-decay", "0.5", "--no-decay", "*.bias"});
  const Weights all = train({"--weight-decay", "0.5"});
  // What the gradient moves is the same with each decay.
  double decayed = 0;
  for (const auto& each : first) {
    const auto& name = each.first;
    const auto& w = each.second;
    INFO(name);
    for (size_t i = 0; i < w.size(); ++i) {
      const double left = without.at(name)[i];
      const double of_decay = 0.25 * 0.5 * w[i];
      decayed += std::abs(of_decay);
      CHECK(std::abs(all.at(name)[i] - (left - of_decay)) < 1e-6);
      if (IsBias(name)) CHECK(with.at(name)[i] == left);
      if (!IsBias(name)) CHECK(with.at(name)[i] == all.at(name)[i]);
    }
  }
  CHECK(decayed > 1);
}

TEST_CASE("SGD's decay is part of the gradient, and of nothing by default") {
  const Weights first = AtFirst();
  const Weights without = TrainFor(1, "0.5", {"--optimizer", "sgd"}).weights;
  const Weights with =
      TrainFor(1, "0.5", {"--optimizer", "sgd", "--weight-decay", "0.125"})
          .weights;
  for (const auto& [name, w] : first) {
    for (size_t i = 0; i < w.size(); ++i) {
      const double expected = without.at(name)[i] - 0.5 * 0.125 * w[i];
      CHECK(std::abs(with.at(name)[i] - expected) < 1e-6);
    }
  }
}

TEST_CASE("gradients are clipped by the norm of all of them") {
  const Weights first = AtFirst();
  const Trained plain = TrainFor(1, "1", {"--optimizer", "sgd"});
  double squares = 0;
  for (const auto& [name, w] : first) {
    for (size_t i = 0; i < w.size(); ++i) {
      squares += std::pow(w[i] - plain.weights.at(name)[i], 2);
    }
  }
  const double norm = std::sqrt(squares);
  REQUIRE(norm > 0.1);
  const double most = norm / 4;
  const auto clip = [](double most_of, Strings more) {
    more.insert(more.end(),
                {"--optimizer", "sgd", "--clip-norm", StrCat(most_of)});
    return TrainFor(1, "1", more);
  };
  for (const Strings& more : {Strings{}, Strings{"--micro-batches", "4"}}) {
    const Trained clipped = clip(most, more);
    CHECK(clipped.lines[0]["grad_norm"].get<double>() ==
          doctest::Approx(norm).epsilon(1e-4));
    const double scale = most / (norm + 1e-6);
    for (const auto& [name, w] : first) {
      for (size_t i = 0; i < w.size(); ++i) {
        const double gradient = w[i] - plain.weights.at(name)[i];
        CHECK(std::abs(clipped.weights.at(name)[i] -
                       (w[i] - scale * gradient)) < 1e-5);
      }
    }
  }
  // What is below it stays, to the bit.
  CHECK(clip(2 * norm, {}).weights == plain.weights);
  CHECK(plain.lines[0]["grad_norm"].is_null());
}

TEST_CASE("SGD with --momentum is that of PyTorch's SGD") {
  const Weights first = AtFirst();
  const Weights after_one = TrainFor(1, "0.5", {"--optimizer", "sgd"}).weights;
  const Weights plain = TrainFor(2, "0.5", {"--optimizer", "sgd"}).weights;
  const Weights with =
      TrainFor(2, "0.5", {"--optimizer", "sgd", "--momentum", "0.75"}).weights;
  // The second step adds 0.75 of the first, from the same weights.
  for (const auto& [name, w] : first) {
    for (size_t i = 0; i < w.size(); ++i) {
      const double moved = after_one.at(name)[i] - w[i];
      CHECK(std::abs(with.at(name)[i] - (plain.at(name)[i] + 0.75 * moved)) <
            1e-5);
    }
  }
  CHECK(TrainFor(2, "0.5", {"--optimizer", "momentum", "--momentum", "0.75"})
            .weights == with);
}

TEST_CASE("labels are smoothed in training, and not where it is judged") {
  const auto train = [](Strings more) {
    return TrainFor(1, "1e-30", std::move(more)).lines;
  };
  const std::vector<Json> plain = train({});
  const std::vector<Json> smoothed = train({"--label-smoothing", "0.25"});
  // The loss is linear in the smoothing.
  const double loss = plain[0]["loss"], quarter = smoothed[0]["loss"];
  const double half = train({"--label-smoothing", "0.5"})[0]["loss"];
  CHECK(std::abs(quarter - loss) > 1e-3);
  CHECK(half - loss == doctest::Approx(2 * (quarter - loss)).epsilon(1e-4));
  CHECK(smoothed.back()["validation_loss"] == plain.back()["validation_loss"]);
  const std::vector<Json> micro_batches =
      train({"--label-smoothing", "0.5", "--micro-batches", "4"});
  CHECK(micro_batches[0]["loss"].get<double>() ==
        doctest::Approx(half).epsilon(1e-5));
}

std::vector<double> Rates(const Strings& more) {
  std::vector<double> rates;
  for (const Json& line : TrainMlp(more)) {
    if (line.contains("lr")) rates.push_back(line["lr"]);
  }
  return rates;
}

void CheckRates(const Strings& more, const std::vector<double>& expected) {
  const std::vector<double> rates = Rates(more);
  REQUIRE(rates.size() == expected.size());
  for (size_t i = 0; i < rates.size(); ++i) {
    CAPTURE(i);
    CHECK(rates[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

TEST_CASE(
    "--schedule, --warmup, --min-lr and --power give each step its rate") {
  const auto of = [](Strings more) {
    more.insert(more.end(), {"--lr", "0.8", "--steps", "8"});
    return more;
  };
  CheckRates(of({"--schedule", "constant", "--warmup", "2"}),
             {0.4, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8});
  // From 0.8 at step 2 to 0.2 at step 8.
  CheckRates(
      of({"--schedule", "linear", "--warmup", "0.25", "--min-lr", "0.2"}),
      {0.4, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2});
  // A share of 8 steps is rounded up: 0.3 * 8 = 2.4.
  const std::vector<double> rates =
      Rates(of({"--schedule", "cosine", "--warmup", "0.3"}));
  CHECK(rates[2] == doctest::Approx(0.8));
  CHECK(rates[1] == doctest::Approx(0.8 * 2 / 3));
  CHECK(rates[7] == doctest::Approx(0.0));
  CheckRates(of({"--schedule", "polynomial", "--power", "2"}),
             {0.8 * 49 / 64, 0.8 * 36 / 64, 0.8 * 25 / 64, 0.8 * 16 / 64,
              0.8 * 9 / 64, 0.8 * 4 / 64, 0.8 / 64, 0});
  CheckRates(
      of({"--schedule", "inverse_sqrt", "--warmup", "4"}),
      {0.2, 0.4, 0.6, 0.8, 0.8 * std::sqrt(4.0 / 5), 0.8 * std::sqrt(4.0 / 6),
       0.8 * std::sqrt(4.0 / 7), 0.8 * std::sqrt(4.0 / 8)});
  // The last fifth, rounded, is two steps: half a cosine at its middle and end.
  CheckRates(of({"--schedule", "wsd", "--min-lr", "0.4"}),
             {0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.6, 0.4});
}

TEST_CASE("the schedule is the model's unless another is given") {
  // The mlp's: 20 steps of warm-up and half a cosine to a tenth.
  const auto cosine = [](int step, double last) {
    const double done = (step - 20) / 20.0;
    return last + (0.5 - last) * 0.5 * (1 + std::cos(std::acos(-1.0) * done));
  };
  const Strings run = {"--lr", "0.5", "--steps", "40"};
  const std::vector<double> rates = Rates(run);
  CHECK(rates[9] == doctest::Approx(0.25));
  CHECK(rates[29] == doctest::Approx(cosine(30, 0.05)));
  Strings with_minimum = run;
  with_minimum.insert(with_minimum.end(), {"--min-lr", "0.1"});
  CHECK(Rates(with_minimum)[29] == doctest::Approx(cosine(30, 0.1)));
  Strings warmer = run;
  warmer.insert(warmer.end(), {"--warmup", "0"});
  CHECK(Rates(warmer)[0] > 0.49);
}

TEST_CASE("epochs are as many steps as the training part takes") {
  // A fifth of the 60 rows is held out; 3 * 48 examples are 28.8 batches of 5.
  const std::string data = WriteTemp("digits.csv", SomeDigits());
  const Outcome outcome =
      RunStowage({"train", "--model", "mlp", "--data", data, "--batch", "5",
                  "--device", "cpu", "--epochs", "3", "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const std::vector<Json> lines = JsonLines(outcome.out);
  REQUIRE(lines.size() == 30);
  CHECK(lines[0]["epoch"].get<double>() == doctest::Approx(5.0 / 48));
  CHECK(lines[28]["epoch"].get<double>() == doctest::Approx(29 * 5.0 / 48));
  CHECK(lines[28]["step"] == 29);
  CHECK(lines[29]["done"] == true);
}

TEST_CASE("a run that is resumed with other settings reports them") {
  const std::string path = TempPath("settings.safetensors");
  TrainMlp({"--save", path, "--optimizer", "adamw", "--weight-decay", "0.25"});
  const Outcome outcome =
      RunStowage(Mlp({"--resume", path, "--optimizer", "adamw", "--steps", "8",
                      "--weight-decay", "0.5", "--no-decay", "*.bias",
                      "--clip-norm", "1", "--schedule", "linear"}));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  for (const char* line :
       {"resume: weight-decay was 0.25, is 0.5\n",
        "resume: no-decay was none, is *.bias\n",
        "resume: clip-norm was none, is 1\n",
        "resume: schedule was cosine, is linear\n",
        "resume: warmup was 20, is 0\n", "resume: steps was 6, is 8\n"}) {
    INFO(line);
    CHECK(outcome.err.find(line) != std::string::npos);
  }
}

TEST_CASE("a resumed run has the rates, norms and decays of the whole one") {
  const Strings settings = {"--optimizer",    "adamw", "--clip-norm", "0.5",
                            "--weight-decay", "0.5",   "--no-decay",  "*.bias",
                            "--schedule",     "wsd",   "--warmup",    "0.25",
                            "--steps",        "8"};
  const auto with = [&](Strings more) {
    more.insert(more.end(), settings.begin(), settings.end());
    return more;
  };
  const std::string path = TempPath("half.safetensors");
  const std::vector<Json> whole = TrainMlp(with({}));
  TrainMlp(with({"--stop-at", "4", "--save", path}));
  const std::vector<Json> rest = TrainMlp(with({"--resume", path}));
  REQUIRE(rest.size() == 5);
  for (size_t i = 0; i < 4; ++i) {
    for (const char* key : {"step", "epoch", "loss", "lr", "grad_norm"}) {
      CHECK(rest[i][key] == whole[4 + i][key]);
    }
  }
  CHECK(rest.back()["validation_loss"] == whole.back()["validation_loss"]);
}

TEST_CASE("settings out of range or of no use are refused by name") {
  struct Row {
    Strings options;
    const char* message;
  };
  const Row rows[] = {
      {{"--clip-norm", "0"}, "[clip-norm] 0 is out of range"},
      {{"--clip-norm", "-1"}, "[clip-norm] -1 is out of range"},
      {{"--clip-norm", "1e300"}, "--clip-norm: 1e300 is infinite in f32"},
      {{"--clip-norm", "nan"}, "--clip-norm: \"nan\" is no number"},
      {{"--ema", "1"}, "[ema] 1 is out of range; expected a decay above 0"},
      {{"--ema", "0"}, "[ema] 0 is out of range"},
      {{"--weight-decay", "-0.5"}, "[weight-decay] -0.5 is out of range"},
      {{"--momentum", "0.5"}, "[momentum] adamw has no momentum to set to 0.5"},
      {{"--optimizer", "sgd", "--momentum", "1"},
       "[momentum] 1 is out of range"},
      {{"--no-decay", "ln*"},
       "pattern \"ln*\" of params without decay matches no param of graph"},
      {{"--optimizer", "sgd", "--no-decay", "*.bias"},
       "[no-decay] sgd has a weight decay of 0 here, so --no-decay \"*.bias\" "
       "changes nothing"},
      {{"--schedule", "step"}, "[schedule] there is no schedule \"step\""},
      {{"--warmup", "6"}, "[warmup] a warm-up of 6 steps in a run of 6"},
      {{"--warmup", "0.95"}, "[warmup] a warm-up of 6 steps in a run of 6"},
      {{"--warmup", "-1"}, "[warmup] a warm-up of -1 steps in a run of 6"},
      {{"--warmup", "1.5"}, "[warmup] \"1.5\" is no number of steps"},
      {{"--warmup", "some"}, "[warmup] \"some\" is no number of steps"},
      {{"--min-lr", "-1"}, "[min-lr] -1 is out of range; expected 0 to"},
      {{"--lr", "0.5", "--min-lr", "0.75"},
       "[min-lr] 0.75 is out of range; expected 0 to the learning rate's peak, "
       "0.5"},
      {{"--schedule", "constant", "--min-lr", "0.1"},
       "[min-lr] a constant rate stays at its peak, and --min-lr 0.1 says "
       "nothing"},
      {{"--power", "2"}, "[power] a cosine rate has no power to set to 2"},
      {{"--schedule", "polynomial", "--power", "0"},
       "[power] 0 is not a finite number above 0"},
      {{"--epochs", "2"}, "--steps excludes --epochs"},
      {{"--label-smoothing", "1"}, "[label-smoothing] 1 is out of range"},
      {{"--label-smoothing", "-0.5"}, "[label-smoothing] -0.5 is out of range"},
  };
  for (const Row& row : rows) {
    const Outcome outcome = RunStowage(Mlp(row.options));
    INFO(row.message, " / ", outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(row.message) != std::string::npos);
  }
}

TEST_CASE("with --ema, weight files and evaluations are of the averages") {
  const auto train = [](int steps, Strings more) {
    more.insert(more.end(), {"--optimizer", "adamw"});
    return TrainFor(steps, "0.01", more);
  };
  const Weights first = train(1, {}).weights, second = train(2, {}).weights;
  const Trained plain = train(3, {});
  CHECK(train(1, {"--ema", "0.75"}).weights == first);  // a copy
  const Trained averaged = train(3, {"--ema", "0.75"});
  for (const auto& [name, values] : averaged.weights) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double before =
          0.75 * first.at(name)[i] + 0.25 * second.at(name)[i];
      const double expected = 0.75 * before + 0.25 * plain.weights.at(name)[i];
      CHECK(std::abs(values[i] - expected) < 1e-6);
    }
  }
  // Steps are those of a run without, the validation loss is that of the saved weights.
  for (size_t i = 0; i < 3; ++i) {
    CHECK(averaged.lines[i]["loss"] == plain.lines[i]["loss"]);
  }
  CHECK(averaged.lines.back()["validation_loss"] !=
        plain.lines.back()["validation_loss"]);
  const std::vector<Json> from =
      TrainMlp({"--init", TempPath("weights.npz"), "--optimizer", "sgd",
                "--steps", "1", "--lr", "1e-30", "--schedule", "constant"});
  CHECK(from.back()["validation_loss"] ==
        averaged.lines.back()["validation_loss"]);
}

TEST_CASE("averages of a resumed run go on") {
  const Strings settings = {"--optimizer", "adamw",   "--ema",
                            "0.75",        "--steps", "8"};
  const auto with = [&](Strings more) {
    more.insert(more.end(), settings.begin(), settings.end());
    return more;
  };
  const std::string path = TempPath("averages.safetensors");
  const std::vector<Json> whole = TrainMlp(with({}));
  TrainMlp(with({"--stop-at", "4", "--save", path}));
  const std::vector<Json> rest = TrainMlp(with({"--resume", path}));
  CHECK(rest.back()["validation_loss"] == whole.back()["validation_loss"]);
}

TEST_CASE("a plan of a clipped step has room for the gradients it waits for") {
  const auto arena = [](Strings more) {
    more.insert(more.end(), {"plan", "--model", "mlp", "--optimizer", "sgd",
                             "--no-plan-cache", "--json"});
    std::rotate(more.begin(), more.end() - 7, more.end());
    const Outcome outcome = RunStowage(more);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return Json::parse(outcome.out)["arena_bytes"].get<int64_t>();
  };
  CHECK(arena({"--clip-norm", "1"}) > arena({}));
  CHECK(arena({"--weight-decay", "0.5", "--no-decay", "*.bias", "--momentum",
               "0"}) == arena({}));
}

// --- Loss scaling ---------------------------------------------------------------------

constexpr size_t kSteps = 40;

std::vector<Json> Train(std::vector<std::string> more) {
  more.insert(more.end(), {"--steps", std::to_string(kSteps)});
  return TrainMlp(more);
}

TEST_CASE("f16 trains with a dynamic scale, and says when it moves") {
  bool any_skipped = false;
  for (const std::string optimizer : {"momentum", "adamw"}) {
    CAPTURE(optimizer);
    const auto f16 = Train({"--optimizer", optimizer, "--dtype", "f16"});
    double scale = 65536;
    for (size_t i = 0; i < kSteps; ++i) {
      if (f16[i].contains("skipped")) scale /= 2;
      CHECK(f16[i]["loss_scale"] == scale);
    }
    CHECK(scale >= 4096);
    any_skipped = any_skipped || scale < 65536;
    CHECK(f16[kSteps - 1]["loss"] < 0.7 * f16[0]["loss"].get<double>());
    CHECK(AllocatedNothing(f16.back()));
  }
  CHECK(any_skipped);
}

TEST_CASE("with a fixed scale, the losses of f16 are near those of f32") {
  for (const std::string optimizer : {"momentum", "adamw"}) {
    CAPTURE(optimizer);
    const auto f32 = Train({"--optimizer", optimizer});
    const auto f16 = Train(
        {"--optimizer", optimizer, "--dtype", "f16", "--loss-scale", "1024"});
    for (size_t i = 0; i < kSteps; ++i) {
      CAPTURE(i);
      CHECK(f16[i]["loss"].get<double>() ==
            doctest::Approx(f32[i]["loss"].get<double>()).epsilon(0.02));
      CHECK_FALSE(f16[i].contains("loss_scale"));
    }
  }
}

TEST_CASE("none is none, and a scale in f32 changes nothing") {
  const auto none = Train({"--dtype", "f16", "--loss-scale", "none"});
  CHECK_FALSE(none[0].contains("loss_scale"));
  const auto f32 = Train({});
  CHECK_FALSE(f32[0].contains("loss_scale"));
  const auto scaled = Train({"--loss-scale", "dynamic"});
  for (size_t i = 0; i < kSteps; ++i) {
    CHECK(scaled[i]["loss"] == f32[i]["loss"]);
    CHECK(scaled[i]["loss_scale"] == 65536);
  }
}

TEST_CASE(
    "steps whose gradients are not finite are skipped, but not for ever") {
  const Outcome outcome =
      RunStowage(Mlp({"--optimizer", "momentum", "--dtype", "f16",
                      "--loss-scale", "1e9", "--json", "--steps", "20"}));
  CHECK(outcome.exit_code == 1);
  const std::vector<Json> lines = JsonLines(outcome.out);
  REQUIRE(lines.size() == 9);
  for (const Json& line : lines) {
    CHECK(line["skipped"] == true);
  }
  CHECK(outcome.err.find("[train] gradients of step 9 are not finite; its "
                         "update was skipped\n") != std::string::npos);
  CHECK(outcome.err.find("[train] gradients of step 10 are not finite; 10 "
                         "steps one after the other were skipped") !=
        std::string::npos);
}

TEST_CASE("a resumed run goes on with the scale that it had") {
  const std::vector<std::string> run = {"--optimizer", "momentum", "--dtype",
                                        "f16",         "--steps",  "30"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = run;
    all.insert(all.end(), more.begin(), more.end());
    return TrainMlp(all);
  };
  const std::string path = TempPath("scaled.safetensors");
  const auto whole = with({});
  const auto first = with({"--stop-at", "15", "--save", path});
  const auto rest = with({"--resume", path});
  CHECK(first[14]["loss_scale"] < 65536);
  for (size_t i = 0; i < 15; ++i) {
    CHECK(whole[15 + i]["loss"] == rest[i]["loss"]);
    CHECK(whole[15 + i]["loss_scale"] == rest[i]["loss_scale"]);
  }
}

}  // namespace
}  // namespace stowage::testing
