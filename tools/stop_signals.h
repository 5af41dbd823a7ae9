#ifndef STOWAGE_TOOLS_STOP_SIGNALS_H_
#define STOWAGE_TOOLS_STOP_SIGNALS_H_

// How a run is stopped from outside.
//
// StopSignals takes SIGINT, SIGTERM, SIGHUP and SIGPIPE as a request that the run grants
// at the end of its step. StoppableOutput is stdout or stderr for the whole program. A
// write to a pipe or a terminal that nobody reads waits for its reader, as any write
// does, until a signal has asked to stop. After that it waits for kGrace in all, and then
// drops what is printed: a checkpoint is saved whether or not anyone reads the log.
//
//   StoppableOutput out(std::cout, STDOUT_FILENO);
//   {
//     const StopSignals stop;
//     while (stop.caught() == 0) ...   // a step, and a line of the log
//   }

#include <chrono>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace stowage::tools {

class StopSignals {
 public:
  /// Catches the signals until this is gone. Those that are ignored, as SIGHUP is under
  /// nohup, stay ignored, except for SIGPIPE. The second SIGINT, SIGTERM or SIGHUP ends
  /// the process at once. At most one object at a time.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The number of the signal that came first; 0: none has, or none is caught.
  static int caught();
};

/// "SIGINT", "SIGTERM", "SIGPIPE" or "SIGHUP".
const char* SignalName(int number);

class StoppableOutput : public std::streambuf {
 public:
  /// How long a stream waits for its reader after a signal, in all.
  static constexpr std::chrono::milliseconds kGrace{200};

  /// Takes the place of the stream's buffer, and gives it back at the end. Files and
  /// devices are written to as ever; a terminal gets each line at its end.
  StoppableOutput(std::ostream& stream, int descriptor);
  ~StoppableOutput() override;
  StoppableOutput(const StoppableOutput&) = delete;
  StoppableOutput& operator=(const StoppableOutput&) = delete;

  /// Writes what has been printed, from any thread, unless another thread is printing
  /// just now.
  void TryFlush();

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  bool Append(std::string_view text);
  bool Flush();
  bool WaitForReader();
  void CountWait();

  std::ostream& stream_;
  std::streambuf* const before_;
  const bool is_file_, is_terminal_;
  const int own_;  // below 0: none
  const int descriptor_;
  std::mutex mutex_;
  std::string pending_;
  std::chrono::milliseconds waited_{0};
  bool drops_ = false;
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_STOP_SIGNALS_H_
