#ifndef STOWAGE_PYTHON_OF_THIS_PROCESS_H_
#define STOWAGE_PYTHON_OF_THIS_PROCESS_H_

// What has threads belongs to the process that started them. A forked child has its memory,
// but not its threads, and to wait there for their end is to wait for others that have
// taken their place, or for ever: so the child leaves it alone.
//
//   std::shared_ptr<Backend> backend = OfThisProcess(MakeCpuBackend({.threads = 2}));

#include <unistd.h>

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

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_OF_THIS_PROCESS_H_
