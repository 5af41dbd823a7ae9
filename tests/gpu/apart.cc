#include "tests/gpu/apart.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace stowage::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxOutput = size_t{64} << 10;  // of a check, passed on
constexpr size_t kMaxRows = size_t{16} << 20;    // bytes of its rows
constexpr double kSecondsToDie = 10;             // after SIGKILL
constexpr int kTickMilliseconds = 20;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

std::string LineOf(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}
std::string LineOf(const CheckRow& row) {
  return LineOf(RowsToJson({&row, 1})[0]);
}

// What runs in the process of a check.
[[noreturn]] void RunChild(const std::string& name, const RunCheck& run,
                           int rows, int output) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  const bool ran = run(name, CheckReport(rows));
  std::fflush(nullptr);
  _exit(ran ? 0 : 1);
}

struct Ended {
  std::string died;  // how; empty: it ended by itself, with 0
  double seconds = 0;
};

class Runner {
 public:
  Runner(const ApartOptions& options, const RunCheck& run, const ShowRow& shown)
      : options_(options), run_(run), shown_(shown) {
    if (options.lines.empty()) return;
    lines_ = open(options.lines.c_str(),
                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    result_.written = lines_ >= 0;
  }
  ~Runner() {
    if (lines_ >= 0) close(lines_);
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  ApartResult Run(const std::vector<std::string>& names) {
    const Clock::time_point start = Clock::now();
    for (const std::string& name : names) {
      if (options_.skip.contains(name) ||
          options_.skip.contains(name.substr(0, name.find(' ')))) {
        result_.skipped.push_back(name);
        End(name, "skipped", 0);
      } else if (over_ || (options_.seconds > 0 &&
                           SecondsSince(start) >= options_.seconds)) {
        result_.waiting.push_back(name);
        End(name, "waiting", 0);
      } else {
        RunOne(name);
      }
    }
    return std::move(result_);
  }

 private:
  void RunOne(const std::string& name) {
    const size_t before = result_.rows.size();
    const Ended ended = Watch(name);
    bool failed = false;
    for (size_t i = before; i < result_.rows.size(); ++i) {
      failed = failed || result_.rows[i].status == CheckStatus::kFailed;
    }
    std::string died = ended.died;
    if (!died.empty() && !part_.empty()) died += StrCat(", at ", part_);
    if (died.empty() && result_.rows.size() == before) died = "left no row";
    if (!died.empty()) {
      result_.died.push_back(name);
      CheckRow row{.name = name, .seconds = ended.seconds};
      row.Fail(died);
      Keep(std::move(row));
    }
    End(name, !died.empty() ? died : failed ? "failed" : "ok", ended.seconds);
  }

  Ended Watch(const std::string& name) {
    int rows[2], output[2];
    if (pipe2(rows, O_CLOEXEC) != 0) return {.died = std::strerror(errno)};
    if (pipe2(output, O_CLOEXEC) != 0) {
      const std::string why = std::strerror(errno);
      close(rows[0]);
      close(rows[1]);
      return {.died = why};
    }
    const Clock::time_point start = Clock::now();
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) RunChild(name, run_, rows[1], output[1]);
    close(rows[1]);
    close(output[1]);
    Ended ended;
    if (child < 0) {
      ended.died = StrCat("could not start: ", std::strerror(errno));
    } else {
      setpgid(child, child);  // whichever of the two comes first
      ended.died = Follow(child, rows[0], output[0], start);
    }
    close(rows[0]);
    close(output[0]);
    ended.seconds = SecondsSince(start);
    return ended;
  }

  // Until it ends, or its time does; how it died.
  std::string Follow(pid_t child, int rows, int output,
                     Clock::time_point start) {
    fcntl(rows, F_SETFL, O_NONBLOCK);
    fcntl(output, F_SETFL, O_NONBLOCK);
    unread_.clear();
    part_.clear();
    row_bytes_ = output_bytes_ = 0;
    std::string why;
    int status = 0;
    double killed = -1;
    while (true) {
      pollfd files[] = {{rows, POLLIN, 0}, {output, POLLIN, 0}};
      poll(files, 2, kTickMilliseconds);
      const bool ended = waitpid(child, &status, WNOHANG) == child;
      // A turn takes what a pipe holds at most, so that a flood hides no deadline.
      ReadRows(rows);
      PassOn(output);
      if (ended) break;
      if (files[0].revents == POLLHUP && files[1].revents == POLLHUP) {
        usleep(1000 * kTickMilliseconds);
      }
      if (killed < 0) {
        if (SecondsSince(start) > options_.timeout) {
          why = StrCat("timed out after ", options_.timeout, " s");
        } else if (row_bytes_ > kMaxRows) {
          why = StrCat("wrote more than ", kMaxRows, " bytes of rows");
        }
        if (!why.empty()) {
          kill(-child, SIGKILL);
          kill(child, SIGKILL);
          killed = SecondsSince(start);
        }
      } else if (SecondsSince(start) > killed + kSecondsToDie) {
        return StrCat(why, ", and could not be killed");
      }
    }
    kill(-child, SIGKILL);  // what it started
    if (!why.empty()) return why;
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      return StrCat("crashed by signal ", signal, " (", strsignal(signal), ")");
    }
    if (WEXITSTATUS(status) != 0) {
      return StrCat("exited with ", WEXITSTATUS(status));
    }
    if (!unread_.empty()) return "left a row that is cut off";
    return "";
  }

  void ReadRows(int rows) {
    char buffer[size_t{64} << 10];
    const ssize_t got = read(rows, buffer, sizeof buffer);
    if (got <= 0) return;
    row_bytes_ += static_cast<size_t>(got);
    if (row_bytes_ > kMaxRows) return;
    unread_.append(buffer, static_cast<size_t>(got));
    for (size_t end; (end = unread_.find('\n')) != std::string::npos;) {
      const auto line = nlohmann::ordered_json::parse(
          std::string_view(unread_).substr(0, end), nullptr,
          /*allow_exceptions=*/false);
      unread_.erase(0, end + 1);
      auto row = RowOf(line);
      if (row.has_value()) {
        Keep(*std::move(row));
      } else if (line.is_object() && line.contains("at")) {
        part_ = line["at"].get<std::string>();
      }
    }
    if (static_cast<size_t>(got) == sizeof buffer) ReadRows(rows);
  }

  void PassOn(int output) {
    char buffer[size_t{64} << 10];
    const ssize_t got = read(output, buffer, sizeof buffer);
    if (got <= 0) return;
    const size_t most = kMaxOutput - std::min(kMaxOutput, output_bytes_);
    WriteAll(STDERR_FILENO, {buffer, std::min(most, static_cast<size_t>(got))});
    output_bytes_ += static_cast<size_t>(got);
  }

  void Keep(CheckRow row) {
    Line(LineOf(row));
    if (shown_) shown_(row);
    over_ = over_ || (options_.ends && options_.ends(row));
    result_.rows.push_back(std::move(row));
  }

  void End(const std::string& name, const std::string& how, double seconds) {
    Line(LineOf(nlohmann::ordered_json{
        {"end", name}, {"how", how}, {"seconds", seconds}}));
  }

  void Line(const std::string& line) {
    if (lines_ < 0) return;
    if (!WriteAll(lines_, line) || fsync(lines_) != 0) result_.written = false;
  }

  const ApartOptions& options_;
  const RunCheck& run_;
  const ShowRow& shown_;
  int lines_ = -1;
  std::string unread_;
  std::string part_;  // of the check that runs
  bool over_ = false;
  size_t row_bytes_ = 0, output_bytes_ = 0;
  ApartResult result_;
};

}  // namespace

void CheckReport::Row(const CheckRow& row) const {
  WriteAll(file_, LineOf(row));
}

void CheckReport::At(std::string_view part) const {
  WriteAll(file_, LineOf(nlohmann::ordered_json{{"at", part}}));
}

ApartResult RunApart(const std::vector<std::string>& names,
                     const ApartOptions& options, const RunCheck& run,
                     const ShowRow& shown) {
  return Runner(options, run, shown).Run(names);
}

}  // namespace stowage::testing
