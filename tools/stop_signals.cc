#include "tools/stop_signals.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>

#include "base/strings.h"

namespace stowage::tools {
namespace {

using std::chrono::milliseconds;

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

volatile std::sig_atomic_t caught_signal = 0;
volatile std::sig_atomic_t is_asked = 0;  // by a signal other than SIGPIPE
std::array<struct sigaction, kSignals.size()> before;

void Catch(int number) {
  if (caught_signal == 0) caught_signal = number;
  if (number == SIGPIPE) return;  // arrives at every write
  if (is_asked == 0) {
    is_asked = 1;
    return;
  }
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// The interval at which a blocked write checks for a signal.
constexpr milliseconds kLook{20};
constexpr size_t kMaxPending = 1 << 16;

bool IsFile(int descriptor) {
  struct stat info;
  return fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
}

// Opens the same pipe or terminal non-blocking, since the shared descriptor must stay blocking;
// below 0 if the system does not allow it.
int OpenAnew(int descriptor) {
  const std::string path = StrCat("/proc/self/fd/", descriptor);
  return ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

}  // namespace

StopSignals::StopSignals() {
  caught_signal = 0;
  is_asked = 0;
  struct sigaction action = {};
  action.sa_handler = Catch;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    // Keep ignored signals, as under nohup, or SIGINT of a background job; except SIGPIPE,
    // which Python ignores for its children.
    if (kSignals[i] != SIGPIPE && before[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &before[i], nullptr);
  }
  caught_signal = 0;
}

int StopSignals::caught() { return caught_signal; }

const char* SignalName(int number) {
  switch (number) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGPIPE:
      return "SIGPIPE";
    default:
      return "SIGHUP";
  }
}

StoppableOutput::StoppableOutput(std::ostream& stream, int descriptor)
    : stream_(stream),
      before_(stream.flush().rdbuf(this)),
      is_file_(IsFile(descriptor)),
      is_terminal_(isatty(descriptor) == 1),
      own_(is_file_ ? -1 : OpenAnew(descriptor)),
      descriptor_(own_ >= 0 ? own_ : descriptor) {}

StoppableOutput::~StoppableOutput() {
  stream_.flush();
  const auto state = stream_.rdstate();  // rdbuf() clears it
  stream_.rdbuf(before_);
  stream_.setstate(state);
  if (own_ >= 0) ::close(own_);
}

void StoppableOutput::TryFlush() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) Flush();
}

StoppableOutput::int_type StoppableOutput::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) {
    return traits_type::not_eof(c);
  }
  const char letter = traits_type::to_char_type(c);
  const std::lock_guard lock(mutex_);
  return Append({&letter, 1}) ? c : traits_type::eof();
}

std::streamsize StoppableOutput::xsputn(const char* text,
                                        std::streamsize count) {
  const std::lock_guard lock(mutex_);
  return Append({text, static_cast<size_t>(count)}) ? count : 0;
}

int StoppableOutput::sync() {
  const std::lock_guard lock(mutex_);
  return Flush() ? 0 : -1;
}

bool StoppableOutput::Append(std::string_view text) {
  pending_ += text;
  const bool is_due = pending_.size() > kMaxPending ||
                      (is_terminal_ && text.find('\n') != text.npos);
  return !is_due || Flush();
}

// Returns false if the system refuses a write.
bool StoppableOutput::Flush() {
  // A pipe that is ready accepts this many bytes without blocking.
  const size_t most = is_file_ ? pending_.size() : PIPE_BUF;
  size_t done = 0;
  bool written = true;
  while (written && done < pending_.size() && WaitForReader()) {
    const ssize_t count = ::write(descriptor_, pending_.data() + done,
                                  std::min(pending_.size() - done, most));
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {  // other writers have filled it
      ::poll(nullptr, 0, static_cast<int>(kLook.count()));
      CountWait();
    } else {
      written = errno == EINTR;
    }
  }
  pending_.clear();
  return written;
}

// Returns false once the grace period is over.
bool StoppableOutput::WaitForReader() {
  if (is_file_) return true;
  if (caught_signal == 0) {
    waited_ = milliseconds(0);
    drops_ = false;
  }
  pollfd ready = {.fd = descriptor_, .events = POLLOUT, .revents = 0};
  while (!drops_) {
    const int count = ::poll(&ready, 1, static_cast<int>(kLook.count()));
    // Also true if the reader is gone: the write reports it.
    if (count > 0 || (count < 0 && errno != EINTR)) return true;
    CountWait();
  }
  return false;
}

// Counts a wait of kLook after a signal.
void StoppableOutput::CountWait() {
  if (caught_signal == 0) return;
  waited_ += kLook;
  drops_ = waited_ > kGrace;
}

}  // namespace stowage::tools
