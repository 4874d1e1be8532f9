// Launchers that start a command several times: mpirun, srun, torchrun. One that sets none of their variables, such as
// prterun, is not recognised.
#pragma once

namespace runner::cli {

// Throws Error(kUsage) if a launcher started several processes of this command. They would not see each other: each
// would train the whole recipe and record a run.
void refuse_several_processes();

}  // namespace runner::cli
