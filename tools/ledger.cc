// stowage ledger: the bytes that jobs hold or wait for.

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "admission/admission.h"
#include "base/strings.h"
#include "tools/command.h"
#include "tools/options.h"

namespace stowage::tools {
namespace {

struct LedgerFlags {
  std::string ledger;
  bool json = false;
};

// The jobs of each resource, by their order of arrival; resources in that of their first.
std::vector<std::vector<LedgerJob>> ByResource(
    const std::vector<LedgerJob>& jobs) {
  std::vector<std::vector<LedgerJob>> resources;
  for (const LedgerJob& job : jobs) {
    auto same = std::ranges::find_if(resources, [&](const auto& of_one) {
      return of_one.front().resource == job.resource;
    });
    if (same == resources.end()) {
      same = resources.insert(same, std::vector<LedgerJob>());
    }
    same->push_back(job);
  }
  return resources;
}

nlohmann::ordered_json LedgerJson(const std::vector<LedgerJob>& jobs) {
  auto resources = nlohmann::ordered_json::array();
  for (const std::vector<LedgerJob>& of_one : ByResource(jobs)) {
    const LedgerJob& first = of_one.front();
    const Bytes held = HeldBytes(of_one, first.resource);
    auto list = nlohmann::ordered_json::array();
    for (const LedgerJob& job : of_one) {
      list.push_back({{"name", job.name},
                      {"state", job.is_held ? "held" : "waiting"},
                      {"bytes", job.bytes},
                      {"since", FormatUtc(job.since)},
                      {"process", job.process}});
    }
    resources.push_back({{"resource", first.resource},
                         {"capacity_bytes", first.capacity},
                         {"held_bytes", held},
                         {"free_bytes", first.capacity - held},
                         {"jobs", std::move(list)}});
  }
  return {{"resources", std::move(resources)}};
}

void PrintLedger(const std::vector<LedgerJob>& jobs) {
  if (jobs.empty()) std::cout << "no job holds or waits\n";
  for (const std::vector<LedgerJob>& of_one : ByResource(jobs)) {
    const LedgerJob& first = of_one.front();
    std::cout << WithoutControls(first.resource) << ": "
              << FormatExactBytes(HeldBytes(of_one, first.resource)) << " of "
              << FormatExactBytes(first.capacity) << " held\n";
    for (const LedgerJob& job : of_one) {
      std::cout << "  " << (job.is_held ? "held by " : "waiting ")
                << DescribeJob(job) << '\n';
    }
  }
}

int RunLedger(const LedgerFlags& flags) {
  const Result<std::vector<LedgerJob>> jobs = ReadLedger(flags.ledger);
  if (!jobs.ok()) return Fail(jobs.error());
  if (flags.json) {
    PrintJson(LedgerJson(*jobs));
  } else {
    PrintLedger(*jobs);
  }
  return kExitDone;
}

}  // namespace

void AddLedger(Program& program) {
  Options options = program.AddSubcommand(
      "ledger", "List the bytes that jobs of `stowage run` hold or wait for",
      "stowage ledger jobs.ledger");
  const auto flags = std::make_shared<LedgerFlags>();
  options.Group("data");
  options.Add("ledger", &flags->ledger,
              "The file that `stowage run --ledger` was given");
  options.Require("ledger");
  options.Group("output");
  options.AddFlag("--json", &flags->json, "Print one JSON object");
  options.OnRun([flags] { return RunLedger(*flags); });
}

}  // namespace stowage::tools
