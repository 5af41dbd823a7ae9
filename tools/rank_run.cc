#include "tools/rank_run.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <mutex>
#include <streambuf>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/strings.h"
#include "base/version.h"
#include "ir/tensor_type.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/stop_signals.h"

namespace stowage::tools {
namespace {

// The prefix of errors that Fail prints.
constexpr std::string_view kPrefix = "stowage: ";
// The time that rank 0 waits for an error of its own before it prints another rank's, since
// all often have the same.
constexpr auto kOwnError = std::chrono::milliseconds(500);

// The time that a rank which has lost another waits for the reason, which is on its way if the
// other has ended by an error.
constexpr auto kReason = std::chrono::milliseconds(1000);
constexpr auto kReasonStep = std::chrono::milliseconds(10);

// Drops output, but keeps the last line that is an error.
class ErrorCatcher : public std::streambuf {
 public:
  const std::string& error() const { return error_; }

 protected:
  int_type overflow(int_type c) override {
    if (c != traits_type::eof()) Put(static_cast<char>(c));
    return traits_type::not_eof(c);
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    for (std::streamsize i = 0; i < count; ++i) Put(text[i]);
    return count;
  }

 private:
  void Put(char c) {
    if (c != '\n') {
      line_ += c;
      return;
    }
    if (line_.starts_with(kPrefix)) error_ = line_.substr(kPrefix.size());
    line_.clear();
  }

  std::string line_, error_;
};

// Writes to the descriptor, since another thread may hold the stream.
void PrintPastStreams(const std::string& message) {
  const std::string line = StrCat(kPrefix, message, "\n");
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
}

// Flushes stdout, unless a thread is printing.
void FlushOutput() {
  auto* const out = dynamic_cast<StoppableOutput*>(std::cout.rdbuf());
  if (out != nullptr) out->TryFlush();
}

std::string FileContent(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string ProgramFact() {
  return StrCat("stowage ", kVersion, " (XXH64 ",
                HexDigest(Xxh64(FileContent("/proc/self/exe"))), ")");
}

// The options that must be equal. The paths of --data and --config may differ between hosts: data
// is compared by its content, and options of a file by their values.
std::string OptionsFact() {
  std::string options;
  for (const std::string& word : GivenOptions()) {
    const std::string_view name =
        std::string_view(word).substr(0, word.find('='));
    if (name == "--threads" || name == "--data") continue;
    options += StrCat(options.empty() ? "" : " ", word);
  }
  return options;
}

Error Lost() {
  return {ErrorCode::kRankLost, "[cluster] another rank was lost"};
}

// Ends this process if ranks do not find each other: MPI waits forever for one that died before
// joining.
class JoinDeadline {
 public:
  explicit JoinDeadline(const cluster::Launch& launch)
      : thread_([this, launch] {
          std::unique_lock lock(mutex_);
          if (changed_.wait_for(lock, kJoining, [this] { return met_; })) {
            return;
          }
          PrintPastStreams(
              StrCat("[cluster] after ", kJoining.count(), " s not all of ",
                     launch.ranks,
                     " ranks have joined; one has died at its start, or "
                     "hosts do not reach each other; this is rank ",
                     launch.rank));
          _exit(kExitNoDevice);
        }) {}
  ~JoinDeadline() {
    {
      const std::lock_guard lock(mutex_);
      met_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  JoinDeadline(const JoinDeadline&) = delete;
  JoinDeadline& operator=(const JoinDeadline&) = delete;

 private:
  // A slow file system delays the start of some ranks.
  static constexpr std::chrono::seconds kJoining{120};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool met_ = false;
  std::thread thread_;
};

}  // namespace

// Drops the output of a rank that does not print.
class RankRun::Silence {
 public:
  Silence()
      : out_(std::cout.rdbuf(&nothing_)), err_(std::cerr.rdbuf(&errors_)) {}
  ~Silence() {
    std::cout.rdbuf(out_);
    std::cerr.rdbuf(err_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

  const std::string& error() const { return errors_.error(); }

 private:
  ErrorCatcher nothing_, errors_;
  std::streambuf* const out_;
  std::streambuf* const err_;
};

RankRun::~RankRun() { CallOnRankLost({}); }

Result<std::unique_ptr<RankRun>> RankRun::Join() {
  std::unique_ptr<RankRun> run(new RankRun);
  STOWAGE_ASSIGN_OR_RETURN(run->launch_, cluster::ReadLaunch());
  if (run->launch_.ranks == 1) return run;
  if (!run->speaks()) run->silence_ = std::make_unique<Silence>();
  cluster::LifelineOptions options;
  options.on_end = [self = run.get()](const cluster::RankEnd& end) {
    self->OnEnd(end);
  };
  const JoinDeadline deadline(run->launch_);
  STOWAGE_ASSIGN_OR_RETURN(run->team_,
                           cluster::Team::Join(run->launch_, options));
  run->signals_.resize(static_cast<size_t>(run->ranks()));
  CallOnRankLost([self = run.get()] { self->AwaitReason(); });
  return run;
}

Collectives* RankRun::collectives() {
  return alone() ? nullptr : &team_->collectives();
}

int RankRun::Threads(int asked) const {
  return asked != 0 || alone() ? asked : cluster::ThreadsOfRank(launch_);
}

int64_t RankRun::bytes_sent() const {
  return alone() ? 0 : team_->bytes_sent();
}

Status RankRun::Agree(const cluster::Facts& facts) {
  if (alone()) return {};
  cluster::Facts all = {{"the program", ProgramFact()},
                        {"the options", OptionsFact()}};
  all.insert(all.end(), facts.begin(), facts.end());
  return cluster::Agree(team_->collectives(), all);
}

Result<int> RankRun::AnyOf(int signal) {
  if (alone()) return signal;
  const auto own = static_cast<int32_t>(signal);
  if (!team_->collectives().AllGather(
          std::as_bytes(std::span(&own, 1)),
          std::as_writable_bytes(std::span(signals_)))) {
    return Lost();
  }
  for (const int32_t each : signals_) {
    if (each != 0) return static_cast<int>(each);
  }
  return 0;
}

Status RankRun::Share(int64_t* number) {
  if (alone()) return {};
  const std::span<std::byte> bytes =
      std::as_writable_bytes(std::span(number, 1));
  return team_->collectives().Broadcast(bytes) ? Status() : Lost();
}

Status RankRun::Share(Runner& runner) {
  if (alone()) return {};
  return cluster::ShareValues(team_->collectives(), runner);
}

Status RankRun::Sum(std::span<double> values) {
  if (alone()) return {};
  const std::span<std::byte> bytes = std::as_writable_bytes(values);
  std::vector<std::byte> scratch(static_cast<size_t>(
      CollectiveScratch(static_cast<Bytes>(bytes.size()), ranks())));
  if (team_->collectives().AllReduce(DType::kF64, bytes, scratch)) return {};
  return Lost();
}

// Called on a thread of the lifeline.
void RankRun::OnEnd(const cluster::RankEnd& end) {
  FlushOutput();
  if (end.lost) {
    PrintPastStreams(StrCat(end.why, "; this is rank ", rank()));
    _exit(kExitNoDevice);
  }
  if (speaks()) {
    std::this_thread::sleep_for(kOwnError);
    if (is_ending_) return;
    PrintPastStreams(StrCat("rank ", end.rank, ": ", end.why));
  }
  _exit(end.exit_code);
}

// A lost rank is noticed by a missing message; the lifeline then brings the reason, and OnEnd ends
// this process.
void RankRun::AwaitReason() {
  for (auto waited = std::chrono::milliseconds(0); waited < kReason;
       waited += kReasonStep) {
    if (team_->lifeline().broken()) {
      while (true) pause();
    }
    std::this_thread::sleep_for(kReasonStep);
  }
}

int RankRun::EndTogether(int exit_code) {
  if (alone()) return exit_code;
  has_ended_ = true;
  const auto on_late = [this, exit_code] {
    FlushOutput();
    if (speaks()) {
      PrintPastStreams(
          "[cluster] all is done, and MPI does not end: a rank died just now");
    }
    _exit(exit_code);
  };
  if (team_->Part(on_late)) return exit_code;
  while (true) pause();  // OnEnd ends the process
}

int RankRun::End(int exit_code) {
  if (alone() || has_ended_) return exit_code;
  const bool is_good = exit_code == kExitDone || exit_code > 128;
  if (is_good) return EndTogether(exit_code);
  // OnEnd reports the end of another rank, and ends the process; other errors are this
  // rank's own.
  if (exit_code == kExitNoDevice && team_->lifeline().broken()) {
    while (true) pause();
  }
  is_ending_ = true;
  team_->lifeline().GiveUp(exit_code, silence_ ? silence_->error() : "");
  std::cout.flush();
  _exit(exit_code);  // MPI's exit would wait for all ranks
}

int RunOnRanks(const std::function<int(RankRun&)>& run) {
  const Result<std::unique_ptr<RankRun>> ranks = RankRun::Join();
  if (!ranks.ok()) return Fail(ranks.error());
  return (*ranks)->End(run(**ranks));
}

}  // namespace stowage::tools
