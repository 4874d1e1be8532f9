#include "tests/support/layers.h"

namespace runner::support {

const std::vector<std::vector<Folder>>& layers() {
  static const std::vector<std::vector<Folder>> table{
      {{"schema/base", "errors, source positions, text, JSON, hashes"}},
      {{"schema/recipe", "recipe structs and reader, generated from `fields.yaml`; checks, JSON Schema"}},
      {{"store", "the SQLite file: migrations, runs, metrics, checkpoints, artifacts, queries"}},
      {{"backends/tensor", "dtypes, shapes, rounding"}},
      {{"backends/runtime", "worker pool, arenas, waiting, CPU features, spans"}},
      {{"backends/dist", "process groups: collectives of ranks"}},
      {{"backends/ir", "Programs, one OpDef per op, autograd, passes"}},
      {{"backends/kernels", "CPU kernels: reference, vectorised by instruction set, oneDNN"}},
      {{"backends/exec", "the device contract, the CPU device, Plans: fusion, memory, their cache"}},
      {{"backends/device_model", "what a device model observes, and a device that a model observes"}},
      {{"backends/gpu", "the emulated GPU: device threads, streams, its model"},
       {"backends/tpu", "the emulated TPU: lazy graphs, compile cache, its model"}},
      {{"runner/formats", "file formats: npy, safetensors, ONNX, CSV, TensorBoard events, Chrome traces, gzip"}},
      {{"runner/images", "PNG and JPEG files, resizing, folders of classes, contact sheets"},
       {"runner/text", "tokenizers"}},
      {{"runner/data", "data sets, batches, the data plan"}, {"runner/optim", "update rules and schedules"}},
      {{"runner/model", "modules, and one ModelDef per model type"}},
      {{"runner/train/step",
        "what a training step computes: layouts of its arrays, Programs recorded from hooks or recipes"}},
      {{"runner/train/engine", "runs these Programs: arrays on a device, optimizer steps, collectives of ranks"}},
      {{"runner/train/loop", "training loops, evaluation, what fits into memory"}},
      {{"runner/train/run", "a run from recipe to end: records, checkpoints, resume, ranks"}},
      {{"runner/lua", "hooks in Lua"}, {"runner/report", "tables, texts, JSON documents, progress"}},
      {{"runner/cli", "commands, parsing, help"}},
      {{"runner", "the binary"}},
  };
  return table;
}

FolderOf folder_of(std::string_view file) {
  FolderOf found;
  for (size_t layer = 0; layer < layers().size(); ++layer) {
    for (const Folder& folder : layers()[layer]) {
      const bool contains = file.starts_with(folder.path + "/");
      if (contains && (found.folder == nullptr || folder.path.size() > found.folder->path.size()))
        found = {layer, &folder};
    }
  }
  return found;
}

}  // namespace runner::support
