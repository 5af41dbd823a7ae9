#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "admission/admission.h"
#include "base/strings.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

using testing::EmptyFolder;
using testing::ReadAll;

std::string NewPath(std::string_view name) {
  return EmptyFolder(name) + "/jobs.ledger";
}

Ledger OpenNew(const std::string& path) { return Ledger::Open(path).OrDie(); }

ReservationRequest Request(const std::string& name, Bytes bytes,
                           Bytes capacity = 10) {
  return {.resource = "device:0",
          .capacity = capacity,
          .bytes = bytes,
          .name = name};
}

void Write(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// A process of its own that enters the ledger, and stays until it is killed.
class Holder {
 public:
  Holder(const std::string& path, const ReservationRequest& request) {
    std::array<int, 2> ends = {};
    REQUIRE(pipe(ends.data()) == 0);
    child_ = fork();
    REQUIRE(child_ >= 0);
    if (child_ == 0) {
      const auto ledger = Ledger::Open(path);
      if (!ledger.ok()) _exit(1);
      const auto held = ledger->Enter(request);
      const char state = !held.ok() ? 'e' : held->is_held() ? 'h' : 'w';
      static_cast<void>(!write(ends[1], &state, 1));
      while (true) pause();
    }
    close(ends[1]);
    REQUIRE(read(ends[0], &state_, 1) == 1);
    close(ends[0]);
  }
  Holder(const Holder&) = delete;
  ~Holder() { Kill(); }

  void Kill() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(std::exchange(child_, -1), nullptr, 0);
  }
  char state() const { return state_; }  // 'h' holds, 'w' waits

 private:
  pid_t child_ = -1;
  char state_ = 0;
};

TEST_CASE("jobs that fit hold their bytes until their reservation is gone") {
  const std::string path = NewPath("fit");
  const Ledger ledger = OpenNew(path);
  {
    const Result<Reservation> a = ledger.Reserve(Request("a", 6));
    const Result<Reservation> b = ledger.Reserve(Request("b", 4));
    REQUIRE(a.ok());
    REQUIRE(b.ok());
    const auto jobs = ledger.Jobs();
    REQUIRE(jobs.ok());
    REQUIRE(jobs->size() == 2);
    CHECK((*jobs)[0].name == "a");
    CHECK((*jobs)[1].name == "b");
    CHECK((*jobs)[1].process == getpid());
    CHECK(HeldBytes(*jobs, "device:0") == 10);
    CHECK(HeldBytes(*jobs, "device:1") == 0);
    // Another resource has bytes of its own.
    ReservationRequest other = Request("c", 10);
    other.resource = "device:1";
    CHECK(ledger.Reserve(other).ok());
  }
  CHECK(ledger.Jobs()->empty());
  CHECK(ledger.Reserve(Request("d", 10)).ok());
}

TEST_CASE("a refusal names the bytes, who holds them, since when, who waits") {
  const std::string path = NewPath("refusal");
  const Ledger ledger = OpenNew(path);
  const Reservation a = ledger.Reserve(Request("a", 6)).OrDie();
  const Reservation b = ledger.Enter(Request("b", 5)).OrDie();
  CHECK_FALSE(b.is_held());
  const Result<Reservation> c = ledger.Reserve(Request("c", 4));
  REQUIRE_FALSE(c.ok());
  CHECK(c.error().code == ErrorCode::kDevice);
  CHECK(c.error().message ==
        StrCat("[admission] \"c\" needs 4 B (4 bytes) of \"device:0\", which "
               "has 4 B (4 bytes) free of 10 B (10 bytes); held by \"a\" 6 B "
               "(6 bytes) since ",
               FormatUtc(a.job().since), ", process ", getpid(),
               "; waiting before it: \"b\" 5 B (5 bytes) since ",
               FormatUtc(b.job().since), ", process ", getpid(),
               "; wait for it, or end one of these"));
  // A job that was refused has left nothing behind.
  CHECK(ledger.Jobs()->size() == 2);
}

TEST_CASE("more bytes than the capacity are never waited for") {
  const Ledger ledger = OpenNew(NewPath("never"));
  ReservationRequest request = Request("a", 11);
  request.patience = std::nullopt;
  const Result<Reservation> a = ledger.Reserve(request);
  REQUIRE_FALSE(a.ok());
  CHECK(a.error().code == ErrorCode::kBudgetTooSmall);
  CHECK(a.error().message ==
        "[admission] \"a\" needs 11 B (11 bytes), more than the 10 B (10 "
        "bytes) of \"device:0\"; it can never start, plan it for a smaller "
        "budget");
  // A name that no record can hold is refused as well.
  CHECK(ledger.Reserve(Request("a\n", 1)).error().code ==
        ErrorCode::kInvalidArgument);
}

TEST_CASE("another capacity than that of the resource's jobs is refused") {
  const Ledger ledger = OpenNew(NewPath("capacity"));
  {
    const Reservation a = ledger.Reserve(Request("a", 1)).OrDie();
    const Result<Reservation> b = ledger.Reserve(Request("b", 1, 12));
    REQUIRE_FALSE(b.ok());
    CHECK(b.error().code == ErrorCode::kInvalidArgument);
    CHECK(b.error().message ==
          "[admission] \"b\" gives \"device:0\" a capacity of 12 B (12 bytes), "
          "and \"a\", which is there already, one of 10 B (10 bytes); all jobs "
          "must give the same");
  }
  CHECK(ledger.Reserve(Request("b", 1, 12)).ok());
}

TEST_CASE("who arrives first starts first, however small the next one is") {
  const Ledger ledger = OpenNew(NewPath("fifo"));
  std::optional<Reservation> a = ledger.Enter(Request("a", 6)).OrDie();
  std::optional<Reservation> b = ledger.Enter(Request("b", 6)).OrDie();
  Reservation c = ledger.Enter(Request("c", 1)).OrDie();
  CHECK(a->is_held());
  CHECK_FALSE(b->is_held());
  CHECK_FALSE(c.is_held());
  CHECK(c.TryHold().OrDie() == false);  // it fits, and is behind b
  CHECK(b->TryHold().OrDie() == false);
  a.reset();
  CHECK(c.TryHold().OrDie() == false);
  CHECK(b->TryHold().OrDie() == true);
  CHECK(c.TryHold().OrDie() == true);
  CHECK(HeldBytes(*ledger.Jobs(), "device:0") == 7);
  // A place in the queue that is given up lets the next one through.
  std::optional<Reservation> d = ledger.Enter(Request("d", 9)).OrDie();
  Reservation e = ledger.Enter(Request("e", 3)).OrDie();
  CHECK(e.TryHold().OrDie() == false);
  d.reset();
  CHECK(e.TryHold().OrDie() == true);
}

TEST_CASE("random arrivals and ends agree with a queue worked out plainly") {
  struct Modelled {
    Reservation reservation;
    Bytes bytes;
    bool is_held;
  };
  constexpr Bytes kCapacity = 100;
  for (const unsigned seed : {1u, 2u, 3u}) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return random() % n; };
    const Ledger ledger = OpenNew(NewPath("model"));
    std::vector<Modelled> queue;  // in order of arrival
    const auto fits = [&](size_t index, Bytes bytes) {
      Bytes held = 0;
      for (size_t i = 0; i < queue.size(); ++i) {
        if (queue[i].is_held) held += queue[i].bytes;
        if (i < index && !queue[i].is_held) return false;
      }
      return held + bytes <= kCapacity;
    };
    for (int turn = 0; turn < 500; ++turn) {
      CAPTURE(turn);
      const auto bytes = static_cast<Bytes>(1 + below(60));
      if (below(2) == 0) {
        const bool expected = fits(queue.size(), bytes);
        if (below(2) == 0) {
          auto entered = ledger.Enter(Request("e", bytes, kCapacity));
          REQUIRE(entered.ok());
          REQUIRE(entered->is_held() == expected);
          queue.push_back({std::move(*entered), bytes, expected});
        } else {
          auto held = ledger.Reserve(Request("r", bytes, kCapacity));
          REQUIRE(held.ok() == expected);
          if (expected) queue.push_back({std::move(*held), bytes, true});
        }
      } else if (!queue.empty()) {
        queue.erase(queue.begin() + static_cast<long>(below(queue.size())));
      }
      if (queue.empty()) continue;
      const size_t asked = below(queue.size());
      Modelled& job = queue[asked];
      const bool expected = job.is_held || fits(asked, job.bytes);
      REQUIRE(job.reservation.TryHold().OrDie() == expected);
      job.is_held = expected;
      Bytes held = 0;
      for (const Modelled& each : queue) held += each.is_held ? each.bytes : 0;
      REQUIRE(HeldBytes(*ledger.Jobs(), "device:0") == held);
      REQUIRE(held <= kCapacity);
    }
  }
}

TEST_CASE("a job that is killed frees its bytes and its place in the queue") {
  const std::string path = NewPath("killed");
  const Ledger ledger = OpenNew(path);
  Holder a(path, Request("a", 7));
  Holder b(path, Request("b", 8));
  CHECK(a.state() == 'h');
  CHECK(b.state() == 'w');
  CHECK(ledger.Jobs()->size() == 2);
  b.Kill();
  CHECK(ledger.Reserve(Request("c", 3)).ok());
  CHECK_FALSE(ledger.Reserve(Request("c", 4)).ok());
  a.Kill();
  CHECK(ledger.Reserve(Request("c", 10)).ok());
  // Their records are used again.
  CHECK(std::filesystem::file_size(path) == 3 * kRecordBytes);
}

TEST_CASE("Reserve waits until the job that holds the bytes has died") {
  const std::string path = NewPath("waits");
  const Ledger ledger = OpenNew(path);
  Holder a(path, Request("a", 7));
  ReservationRequest request = Request("b", 8);
  request.patience = std::nullopt;
  int calls = 0;
  request.on_wait = [&](const std::vector<LedgerJob>& jobs) {
    ++calls;
    REQUIRE(jobs.size() == 2);
    CHECK(jobs[0].is_held);
    CHECK(jobs[1].name == "b");
    CHECK_FALSE(jobs[1].is_held);
    a.Kill();
  };
  const Result<Reservation> b = ledger.Reserve(request);
  REQUIRE(b.ok());
  CHECK(b->is_held());
  CHECK(calls == 1);
  CHECK(HeldBytes(*ledger.Jobs(), "device:0") == 8);
}

TEST_CASE("Reserve gives up after its patience, and leaves the queue") {
  const Ledger ledger = OpenNew(NewPath("patience"));
  const Reservation a = ledger.Reserve(Request("a", 7)).OrDie();
  ReservationRequest request = Request("b", 8);
  request.patience = std::chrono::milliseconds(20);
  const Result<Reservation> b = ledger.Reserve(request);
  REQUIRE_FALSE(b.ok());
  CHECK(b.error().code == ErrorCode::kDevice);
  CHECK(b.error().message.find(" free of 10 B (10 bytes), after ") !=
        std::string::npos);
  CHECK(b.error().message.find("held by \"a\" 7 B") != std::string::npos);
  CHECK(b.error().message.find("\"b\" 8 B") == std::string::npos);
  CHECK(ledger.Jobs()->size() == 1);
}

TEST_CASE("a child that shares the open file holds the bytes with its parent") {
  const std::string path = NewPath("inherited");
  const Ledger ledger = OpenNew(path);
  std::optional<Reservation> a = ledger.Reserve(Request("a", 7)).OrDie();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    while (true) pause();
  }
  a.reset();
  CHECK_FALSE(ledger.Reserve(Request("b", 7)).ok());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(ledger.Reserve(Request("b", 7)).ok());
}

TEST_CASE("processes killed at any moment leave a ledger that reads, empty") {
  const std::string path = NewPath("moments");
  std::mt19937 random(7);
  for (int turn = 0; turn < 60; ++turn) {
    CAPTURE(turn);
    // The file itself is made anew now and then, so that its making is killed, too.
    if (turn % 10 == 0) std::filesystem::remove(path);
    std::vector<pid_t> children;
    for (int i = 0; i < 3; ++i) {
      children.push_back(fork());
      REQUIRE(children.back() >= 0);
      if (children.back() != 0) continue;
      while (true) {
        const auto ledger = Ledger::Open(path);
        if (!ledger.ok()) _exit(1);
        auto a = ledger->Enter(Request("a", 1 + i));
        auto b = ledger->Enter(Request("b", 6));
        if (!a.ok() || !b.ok() || !b->TryHold().ok()) _exit(2);
      }
    }
    usleep(500 + random() % 3000);
    for (const pid_t child : children) kill(child, SIGKILL);
    for (const pid_t child : children) {
      int status = 0;
      REQUIRE(waitpid(child, &status, 0) == child);
      CHECK(WIFSIGNALED(status));  // it met no error before
    }
    const Ledger ledger = OpenNew(path);
    CHECK(ledger.Jobs()->empty());
    CHECK(ledger.Reserve(Request("c", 10)).ok());
  }
}

TEST_CASE("a record cut or torn by a death is free, wherever it was cut") {
  const std::string path = NewPath("torn");
  const Ledger ledger = OpenNew(path);
  { const Reservation a = ledger.Reserve(Request("a", 9)).OrDie(); }
  const std::string whole = ReadAll(path);
  REQUIRE(whole.size() == 2 * kRecordBytes);
  for (size_t size = 0; size < whole.size(); size += 37) {
    CAPTURE(size);
    Write(path, std::string_view(whole).substr(0, size));
    CHECK(ReadLedger(path)->empty());
    CHECK(OpenNew(path).Reserve(Request("b", 10)).ok());
    CHECK(ReadAll(path).starts_with(whole.substr(0, kRecordBytes)));
  }
  std::string torn = whole;
  torn.replace(kRecordBytes + 30, 100, std::string(100, '\0'));
  Write(path, torn);
  CHECK(OpenNew(path).Jobs()->empty());
}

TEST_CASE("what is no ledger is refused and left as it is") {
  const std::string path = NewPath("other");
  const std::string texts[] = {"weights of a month", "stowage-ledger 2\n",
                               std::string(4096, '\0')};
  for (const std::string& text : texts) {
    Write(path, text);
    const Result<Ledger> ledger = Ledger::Open(path);
    REQUIRE_FALSE(ledger.ok());
    CHECK(ledger.error().code == ErrorCode::kInvalidArgument);
    CHECK(ledger.error().message.find("is no ledger: it begins with ") !=
          std::string::npos);
    CHECK_FALSE(ReadLedger(path).ok());
    CHECK(ReadAll(path) == text);
  }
  const std::string folder = EmptyFolder("folder");
  CHECK(Ledger::Open(folder).error().code == ErrorCode::kIo);
  CHECK(Ledger::Open(folder + "/nowhere/x").error().code == ErrorCode::kIo);
  CHECK(ReadLedger(folder + "/nowhere").error().code == ErrorCode::kNotFound);
  REQUIRE(mkfifo((folder + "/pipe").c_str(), 0600) == 0);
  CHECK(Ledger::Open(folder + "/pipe").error().message ==
        StrCat("[admission] the ledger \"", folder,
               "/pipe\" is no regular file"));
}

TEST_CASE("a damaged record that a job holds refuses all, and is not mended") {
  const std::string path = NewPath("damaged");
  const Ledger ledger = OpenNew(path);
  const Reservation a = ledger.Reserve(Request("a", 1)).OrDie();
  Reservation b = ledger.Enter(Request("b", 10)).OrDie();
  const std::string whole = ReadAll(path);
  std::string changed = whole;
  changed[kRecordBytes + 40] ^= 1;
  for (const std::string& damaged :
       {changed, whole.substr(0, kRecordBytes + 100), std::string()}) {
    // The same file: another one would have no locks.
    std::filesystem::resize_file(path, damaged.size());
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
        << damaged;
    CAPTURE(damaged.size());
    for (const Error& error :
         {ledger.Reserve(Request("c", 1)).error(), b.TryHold().error(),
          ledger.Jobs().error(), Ledger::Open(path).error()}) {
      CHECK(error.code == ErrorCode::kInvalidArgument);
      CHECK(error.message ==
            StrCat("[admission] the ledger \"", path,
                   "\" is damaged: record 0 does not read, and a job holds "
                   "it; end the jobs that use the ledger, then remove it"));
    }
    CHECK(ReadAll(path) == damaged);
  }
}

TEST_CASE("a job that waits in a ledger that was replaced is an error") {
  const std::string path = NewPath("replaced");
  const Ledger ledger = OpenNew(path);
  const Reservation a = ledger.Reserve(Request("a", 9)).OrDie();
  Reservation b = ledger.Enter(Request("b", 9)).OrDie();
  std::filesystem::remove(path);
  const Ledger next = OpenNew(path);
  const Result<bool> held = b.TryHold();
  REQUIRE_FALSE(held.ok());
  CHECK(held.error().code == ErrorCode::kIo);
  CHECK(held.error().message.find("was removed or replaced while") !=
        std::string::npos);
}

TEST_CASE("a ledger that may only be read is listed, and not reserved in") {
  const std::string path = NewPath("read_only");
  const Ledger ledger = OpenNew(path);
  const Reservation a = ledger.Reserve(Request("a", 9)).OrDie();
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  CHECK(ReadLedger(path)->size() == 1);
  if (geteuid() != 0) {
    CHECK(Ledger::Open(path).error().code == ErrorCode::kIo);
  }
}

TEST_CASE("a reservation is kept over exec only where that is asked for") {
  const std::string path = NewPath("exec");
  const Ledger ledger = OpenNew(path);
  for (const bool keeps : {false, true}) {
    CAPTURE(keeps);
    std::array<int, 2> ends = {};
    REQUIRE(pipe(ends.data()) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const auto held = ledger.Reserve(Request("a", 9));
      if (!held.ok() || (keeps && !held->KeepOverExec().ok())) _exit(1);
      dup2(ends[1], STDOUT_FILENO);
      execl("/bin/sh", "sh", "-c", "echo; exec sleep 1000", nullptr);
      _exit(1);
    }
    close(ends[1]);
    char line = 0;
    CHECK(read(ends[0], &line, 1) == 1);  // the shell runs
    CHECK(ledger.Jobs()->size() == (keeps ? 1 : 0));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ends[0]);
    CHECK(ledger.Jobs()->empty());
  }
}

}  // namespace
}  // namespace stowage
