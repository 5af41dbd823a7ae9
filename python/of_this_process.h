#ifndef STOWAGE_PYTHON_OF_THIS_PROCESS_H_
#define STOWAGE_PYTHON_OF_THIS_PROCESS_H_

// What has threads belongs to the process that started them. A forked child has its memory,
// but not its threads, and to wait there for their end is to wait for others that have
// taken their place, or for ever: so the child leaves it alone.
//
//   std::shared_ptr<Backend> backend = OfThisProcess(MakeCpuBackend({.threads = 2}));
//
//   if (!turns.Take()) return Error{...};  // a thread of the parent's has it, for ever
//   ...
//   turns.Give();

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <memory>

namespace stowage::python {

/// `object`, which ends with its last owner in this process, and in no child of it.
template <typename T>
std::shared_ptr<T> OfThisProcess(std::unique_ptr<T> object) {
  const pid_t process = getpid();
  return {object.release(), [process](T* last) {
            if (getpid() == process) delete last;
          }};
}

/// Turns of a process's threads at one thing.
class TurnsOfThisProcess {
 public:
  /// Waits for the turn of this thread. False in a forked child where a thread of the
  /// parent had the turn, which would be waited for in vain.
  bool Take() {
    const pid_t process = getpid();
    for (pid_t taken_by = 0;
         !taken_by_.compare_exchange_strong(taken_by, process); taken_by = 0) {
      if (taken_by != process) return false;
      taken_by_.wait(taken_by);
    }
    return true;
  }
  void Give() {
    taken_by_ = 0;
    taken_by_.notify_one();
  }

 private:
  std::atomic<pid_t> taken_by_ = 0;  // 0: nobody has it
};

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_OF_THIS_PROCESS_H_
