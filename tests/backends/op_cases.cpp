#include "tests/backends/op_cases.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace runner::backends::testing {
namespace {

using In = std::span<const Value>;
using Record = std::function<Value(In)>;
using Axes = std::vector<int64_t>;

constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kBf16, DType::kF16};
constexpr DType kReducedInPlace[] = {DType::kF32, DType::kF64, DType::kI32, DType::kI64};
constexpr DType kNumbers[] = {DType::kF32, DType::kF64, DType::kBf16, DType::kF16, DType::kI32, DType::kI64};

class Table {
 public:
  explicit Table(OpCaseSize size) : large_(size == OpCaseSize::kLarge) {}

  std::vector<OpCase> run() {
    unary();
    binary();
    choice();
    reductions();
    layout();
    indexing();
    products();
    convolutions();
    pooling();
    resampling();
    channels();
    rows();
    rotary();
    attention();
    losses();
    collectives();
    return std::move(cases_);
  }

 private:
  // Replaces a shape when speed is measured.
  Shape of_size(const Shape& small, const Shape& large) const { return large_ ? large : small; }
  std::span<const DType> floats() const { return large_ ? std::span(kFloats).first(1) : kFloats; }
  std::span<const DType> numbers() const { return large_ ? std::span(kNumbers).first(1) : kNumbers; }
  std::vector<Shape> shapes() const {
    if (large_) return {Shape{1024, 1024}};
    return {Shape{}, Shape{7}, Shape{3, 5}, Shape{0, 4}, Shape{2, 1, 3}, Shape{1030}};
  }

  void add(const char* function, std::vector<OpInput> inputs, Record record) {
    cases_.push_back({function, std::move(inputs), std::move(record)});
  }

  void unary() {
    struct Row {
      const char* name;
      Value (*function)(Value);
      double low = -2, high = 2;
    };
    const Row rows[] = {{"exp", ops::exp},
                        {"log", ops::log, 0.2, 3},
                        {"log1p", ops::log1p, -0.8, 3},
                        {"sqrt", ops::sqrt, 0.1, 3},
                        {"rsqrt", [](Value x) { return ops::unary(Op::kRsqrt, x); }, 0.1, 3},
                        {"tanh", ops::tanh},
                        {"sigmoid", ops::sigmoid},
                        {"erf", ops::erf},
                        {"relu", ops::relu},
                        {"gelu", ops::gelu},
                        {"gelu_tanh", ops::gelu_tanh},
                        {"silu", ops::silu},
                        {"gelu_slope", [](Value x) { return ops::unary(Op::kGeluSlope, x); }},
                        {"gelu_tanh_slope", [](Value x) { return ops::unary(Op::kGeluTanhSlope, x); }},
                        {"silu_slope", [](Value x) { return ops::unary(Op::kSiluSlope, x); }},
                        {"softplus", ops::softplus},
                        {"log_sigmoid", ops::log_sigmoid},
                        {"is_finite", ops::is_finite}};
    for (const Row& row : rows)
      for (const DType dtype : floats())
        for (const Shape& shape : shapes())
          add(row.name, {{{dtype, shape}, row.low, row.high}}, [f = row.function](In x) { return f(x[0]); });
    const Row of_numbers[] = {{"neg", ops::neg}, {"abs", ops::abs}, {"sign", ops::sign}};
    for (const Row& row : of_numbers)
      for (const DType dtype : numbers())
        for (const Shape& shape : shapes())
          add(row.name, {{{dtype, shape}}}, [f = row.function](In x) { return f(x[0]); });
    for (const Shape& shape : shapes())
      add("logical_not", {{{DType::kBool, shape}, 0, 2}}, [](In x) { return ops::unary(Op::kNot, x[0]); });
    for (int from = 0; from < kDTypeCount; ++from)
      for (int to = 0; to < kDTypeCount; ++to)
        add("cast", {{{static_cast<DType>(from), shapes().back()}}},
            [to](In x) { return ops::cast(x[0], static_cast<DType>(to)); });
    for (const DType dtype : floats())
      add("on_host", {{{dtype, shapes().back()}}}, [](In x) { return ops::on_host(x[0]); });
  }

  // Pairs of equal shapes, and pairs that broadcast.
  std::vector<std::pair<Shape, Shape>> pairs() const {
    std::vector<std::pair<Shape, Shape>> pairs;
    for (const Shape& shape : shapes()) pairs.emplace_back(shape, shape);
    if (large_) return {pairs[0], {Shape{1024, 1024}, Shape{1024}}, {Shape{1024, 1024}, Shape{1024, 1}}};
    pairs.insert(pairs.end(), {{Shape{3, 5}, Shape{5}}, {Shape{3, 5}, Shape{}}, {Shape{2, 1, 3}, Shape{4, 1}}});
    return pairs;
  }

  void binary() {
    struct Row {
      const char* name;
      Value (*function)(Value, Value);
      double low = -2, high = 2;
    };
    const Row of_numbers[] = {
        {"add", ops::add},         {"sub", ops::sub}, {"mul", ops::mul}, {"minimum", ops::minimum},
        {"maximum", ops::maximum}, {"eq", ops::eq},   {"ne", ops::ne},   {"lt", ops::lt},
        {"le", ops::le},           {"gt", ops::gt},   {"ge", ops::ge}};
    const Row of_floats[] = {{"div", ops::div, 0.2, 2}, {"pow", ops::pow, 0.2, 2}};
    const Row of_bools[] = {{"logical_and", ops::logical_and},
                            {"logical_or", [](Value a, Value b) { return ops::binary(Op::kOr, a, b); }}};
    const auto add_rows = [&](std::span<const Row> rows, std::span<const DType> dtypes) {
      for (const Row& row : rows)
        for (const DType dtype : dtypes)
          for (const auto& [a, b] : pairs())
            add(row.name, {{{dtype, a}, row.low, row.high}, {{dtype, b}, row.low, row.high}},
                [f = row.function](In x) { return f(x[0], x[1]); });
    };
    constexpr DType kBools[] = {DType::kBool};
    add_rows(of_numbers, numbers());
    add_rows(of_floats, floats());
    add_rows(of_bools, kBools);
  }

  void choice() {
    for (const DType dtype : floats()) {
      for (const auto& [a, b] : pairs())
        add("where", {{{DType::kBool, a}, 0, 2}, {{dtype, a}}, {{dtype, b}}},
            [](In x) { return ops::where(x[0], x[1], x[2]); });
      for (const Shape& shape : shapes()) {
        add("clamp", {{{dtype, shape}}}, [](In x) { return ops::clamp(x[0], -0.7, 1.1); });
        add("leaky_relu", {{{dtype, shape}}}, [](In x) { return ops::leaky_relu(x[0], 0.2); });
        add("elu", {{{dtype, shape}}}, [](In x) { return ops::elu(x[0], 1.5); });
        add("full_like", {{{dtype, shape}}}, [](In x) { return ops::full_like(x[0], 0.1); });
      }
    }
    add("vector", {{{DType::kF32, Shape{}}}}, [](In x) {
      constexpr double kFour[] = {0.5, -1, 0.1, 3};
      return ops::vector(*x[0].program, kFour);
    });
    for (const int64_t size : {0, 1, 5, 64})
      add("arange", {{{DType::kF32, Shape{}}}}, [size](In x) { return ops::arange(*x[0].program, size); });
  }

  void reductions() {
    struct Row {
      const char* name;
      Value (*function)(Value, std::span<const int64_t>, bool);
      bool floats_only = false;
    };
    const Row rows[] = {
        {"sum", ops::sum},         {"reduce_max", ops::reduce_max}, {"reduce_min", ops::reduce_min},
        {"mean", ops::mean, true}, {"norm", ops::norm, true},       {"logsumexp", ops::logsumexp, true}};
    struct Reduced {
      Shape shape;
      Axes axes;
    };
    const Reduced small[] = {{{7}, {0}},          {{3, 5}, {0}},        {{3, 5}, {1}},   {{3, 5}, {}},
                             {{2, 3, 4}, {0, 2}}, {{2, 3, 4}, {1}},     {{1030}, {0}},   {{}, {}},
                             {{37, 65}, {0}},     {{2, 1, 3, 2}, {-1}}, {{1, 1}, {0, 1}}};
    const Reduced large[] = {{{1024, 1024}, {}}, {{1024, 1024}, {0}}, {{1024, 1024}, {1}}};
    const std::span<const Reduced> all = large_ ? std::span<const Reduced>(large) : small;
    for (const Row& row : rows)
      for (const DType dtype : row.floats_only ? floats() : numbers())
        for (const Reduced& r : all)
          for (const bool keep_dims : {false, true})
            add(row.name, {{{dtype, r.shape}, -0.5, 1.5}},
                [f = row.function, axes = r.axes, keep_dims](In x) { return f(x[0], axes, keep_dims); });
    for (const DType dtype : floats()) {
      const TensorType type{dtype, of_size({3, 5}, {1024, 1024})};
      for (const Axes& axes : {Axes{}, Axes{0}, Axes{1}})
        add("variance", {{type}}, [axes](In x) { return ops::variance(x[0], axes); });
      for (const int64_t axis : {0, 1}) add("argmax", {{type}}, [axis](In x) { return ops::argmax(x[0], axis); });
    }
    if (!large_) add("sum", {{{DType::kF32, Shape{0, 3}}}}, [](In x) { return ops::sum(x[0], Axes{0}); });
  }

  void layout() {
    constexpr DType kAll[] = {DType::kF32, DType::kF64, DType::kBf16, DType::kI32, DType::kI64, DType::kBool};
    for (const DType dtype : large_ ? std::span(kAll).first(1) : kAll) {
      const OpInput x{{dtype, of_size({2, 3, 4}, {64, 128, 128})}};
      const Shape shape = x.type.shape;
      const OpInput row{{dtype, of_size({3, 1}, {128, 1})}};
      add("reshape", {x}, [shape](In v) { return ops::reshape(v[0], {shape[0] * shape[1], shape[2]}); });
      add("flatten", {x}, [](In v) { return ops::flatten(v[0]); });
      add("detach", {x}, [](In v) { return ops::detach(v[0]); });
      add("barrier", {x, row}, [](In v) { return ops::barrier(v[0], v[1]); });
      for (const Axes& axes : {Axes{2, 1, 0}, Axes{0, 2, 1}, Axes{1, 0, 2}, Axes{1, 2, 0}})
        add("permute", {x}, [axes](In v) { return ops::permute(v[0], axes); });
      add("transpose", {x}, [](In v) { return ops::transpose(v[0], 0, -1); });
      add("expand", {row}, [shape](In v) { return ops::expand(v[0], shape); });
      for (const int64_t axis : {0, 1, 2})
        for (const int64_t step : {1, 2})
          add("slice", {x}, [axis, step](In v) { return ops::slice(v[0], axis, 1, -1, step); });
      for (const int64_t axis : {0, 1, 2}) {
        add("pad", {x}, [axis](In v) { return ops::pad(v[0], axis, 1, 2); });
        add("concat", {x, x, x}, [axis](In v) { return ops::concat(v, axis); });
        add("stack", {x, x}, [axis](In v) { return ops::stack(v, axis); });
        add("unsqueeze", {x}, [axis](In v) { return ops::unsqueeze(v[0], axis); });
        add("tril", {x}, [axis](In v) { return ops::tril(v[0], axis - 1); });
        add("triu", {x}, [axis](In v) { return ops::triu(v[0], axis - 1); });
      }
    }
  }

  void indexing() {
    for (const DType dtype : floats()) {
      const OpInput table{{dtype, of_size({5, 3}, {4096, 256})}};
      const double high = static_cast<double>(table.type.shape[0]);
      const Shape rows = of_size({2, 3}, {4, 256}), like = table.type.shape.with(0, rows.elements());
      const OpInput index{{DType::kI64, like}, 0, high};
      add("gather", {table, index}, [](In x) { return ops::gather(x[0], 0, x[1]); });
      add("scatter_add", {table, index, {{dtype, like}}}, [](In x) { return ops::scatter_add(x[0], 0, x[1], x[2]); });
      const OpInput columns{{DType::kI64, table.type.shape}, 0, static_cast<double>(table.type.shape[1])};
      add("gather", {table, columns}, [](In x) { return ops::gather(x[0], 1, x[1]); });
      add("scatter_add", {table, columns, table}, [](In x) { return ops::scatter_add(x[0], 1, x[1], x[2]); });
      const int64_t n = like[0];
      add("index_copy", {table, {{DType::kI64, Shape{n}}, 0, high}, {{dtype, like}}},
          [](In x) { return ops::index_copy(x[0], 0, x[1], x[2]); });
      add("index_copy", {table, {{DType::kI64, Shape{1}}, 0, 3}, {{dtype, table.type.shape.with(1, 1)}}},
          [](In x) { return ops::index_copy(x[0], 1, x[1], x[2]); });
      add("embedding", {table, {{DType::kI64, rows}, 0, high}}, [](In x) { return ops::embedding(x[0], x[1]); });
    }
    add("one_hot", {{{DType::kI64, of_size({2, 3}, {4096})}, 0, 4}}, [](In x) { return ops::one_hot(x[0], 4); });
  }

  void products() {
    struct Product {
      Axes a, b;
    };
    const std::vector<Product> small = {
        {{3, 4}, {4, 5}}, {{1, 17}, {17, 2}},          {{3, 1}, {1, 4}}, {{2, 3, 4}, {2, 4, 2}}, {{0, 4}, {4, 5}},
        {{3, 0}, {0, 2}}, {{2, 2, 3, 2}, {2, 2, 2, 3}}};
    const std::vector<Product> large = {{{256, 1024}, {1024, 1024}}, {{64, 128, 64}, {64, 64, 128}}};
    for (const DType dtype : floats())
      for (const Product& product : large_ ? large : small)
        for (const int transposed : {0, 1, 2, 3}) {
          const bool ta = transposed & 1, tb = transposed & 2;
          Axes a = product.a, b = product.b;
          if (ta) std::swap(a[a.size() - 1], a[a.size() - 2]);
          if (tb) std::swap(b[b.size() - 1], b[b.size() - 2]);
          add("matmul", {{{dtype, Shape(a)}}, {{dtype, Shape(b)}}},
              [ta, tb](In x) { return ops::matmul(x[0], x[1], ta, tb); });
        }
    if (large_) return;
    for (const DType dtype : {DType::kF32, DType::kF64})
      for (const bool ta : {false, true})
        add("add_matmul", {{{dtype, Shape{3, 5}}}, {{dtype, ta ? Shape{4, 3} : Shape{3, 4}}}, {{dtype, Shape{4, 5}}}},
            [ta](In x) { return ops::add_matmul(x[0], x[1], x[2], ta); });
    for (const Shape& a : {Shape{2, 3, 4}, Shape{2, 3, 0}, Shape{0, 3, 4}})
      add("matmul", {{{DType::kF64, a}}, {{DType::kF64, Shape{a.back(), 2}}}},
          [](In x) { return ops::matmul(x[0], x[1]); });
  }

  void convolutions() {
    struct Convolution {
      Shape x, w;
      std::vector<Window> windows;
      int64_t groups = 1;
    };
    const std::vector<Convolution> small = {
        {{2, 3, 5, 6}, {4, 3, 3, 2}, {{.before = 1, .after = 1}, {.stride = 2}}},
        {{1, 2, 7, 5}, {2, 2, 3, 3}, {{.stride = 2, .dilation = 2}, {.before = 2}}},
        {{2, 4, 4, 4}, {4, 2, 2, 2}, {{.before = 1}, {.after = 1}}, 2},
        {{2, 3, 4, 5}, {6, 1, 3, 3}, {{.before = 1, .after = 1}, {.stride = 3, .before = 1, .after = 1}}, 3},
        {{3, 4, 3, 3}, {2, 4, 1, 1}, {{}, {}}},
        {{2, 3, 9}, {4, 3, 3}, {{.stride = 2, .dilation = 2, .before = 2, .after = 1}}},
        {{0, 2, 4, 4}, {3, 2, 3, 3}, {{}, {}}},
        {{9, 1, 2, 2}, {1, 1, 2, 2}, {{}, {}}},
        {{1, 1, 2, 2}, {1, 1, 5, 1}, {{.before = 4, .after = 6}, {.stride = 4, .after = 3}}},
    };
    const std::vector<Convolution> large = {
        {{16, 64, 28, 28}, {64, 64, 3, 3}, {{.before = 1, .after = 1}, {.before = 1, .after = 1}}},
        {{16, 256, 14, 14}, {256, 256, 1, 1}, {{}, {}}},
        {{16, 128, 28, 28}, {128, 1, 3, 3}, {{.before = 1, .after = 1}, {.before = 1, .after = 1}}, 128}};
    for (const DType dtype : floats())
      for (const Convolution& c : large_ ? large : small) {
        const OpInput x{{dtype, c.x}}, w{{dtype, c.w}};
        add("conv", {x, w}, [c](In v) { return ops::conv(v[0], v[1], c.windows, c.groups); });
        Shape y = c.x.with(1, c.w[0]);
        std::vector<int64_t> sizes;
        for (size_t i = 0; i < c.windows.size(); ++i) {
          const int axis = static_cast<int>(2 + i);
          sizes.push_back(c.x[axis]);
          Window window = c.windows[i];
          window.size = c.w[axis];
          y = y.with(axis, window.count(c.x[axis]));
        }
        add("conv_transpose", {{{dtype, y}}, w},
            [c, sizes](In v) { return ops::conv_transpose(v[0], v[1], c.windows, sizes, c.groups); });
      }
  }

  void pooling() {
    struct Pools {
      Shape x;
      std::vector<Pooling> pools;
    };
    const std::vector<Pools> small = {
        {{2, 3, 4, 6}, {{.size = 2, .stride = 2}, {.size = 3, .stride = 3}}},
        {{1, 2, 5, 5}, {{.size = 3, .stride = 2, .padding = 1}, {.size = 3, .stride = 1, .padding = 1}}},
        {{2, 1, 5, 6},
         {{.size = 2, .stride = 2, .ceil_mode = true}, {.size = 3, .stride = 2, .padding = 1, .ceil_mode = true}}},
        {{2, 2, 7}, {{.size = 3, .stride = 2, .padding = 1}}},
        {{1, 2, 5, 59}, {{.size = 2, .stride = 2}, {.size = 2, .stride = 2}}},
        {{0, 2, 4}, {{.size = 2, .stride = 2}}},
    };
    const std::vector<Pools> large = {
        {{16, 64, 56, 56}, {{.size = 2, .stride = 2}, {.size = 2, .stride = 2}}},
        {{16, 64, 56, 56}, {{.size = 3, .stride = 2, .padding = 1}, {.size = 3, .stride = 2, .padding = 1}}}};
    for (const DType dtype : floats())
      for (const Pools& c : large_ ? large : small) {
        add("max_pool", {{{dtype, c.x}}}, [c](In v) { return ops::max_pool(v[0], c.pools); });
        for (const bool count_padding : {true, false})
          add("avg_pool", {{{dtype, c.x}}},
              [c, count_padding](In v) { return ops::avg_pool(v[0], c.pools, count_padding); });
      }
    const Pooling dilated{.size = 2, .stride = 1, .dilation = 3};
    add("max_pool", {{{DType::kF64, {1, 2, 8}}}},
        [dilated](In v) { return ops::max_pool(v[0], std::span(&dilated, 1)); });
  }

  void resampling() {
    struct Sizes {
      Shape x;
      std::vector<int64_t> sizes;
    };
    const std::vector<Sizes> small = {
        {{2, 1, 4, 6}, {2, 3}}, {{1, 2, 5, 7}, {3, 4}}, {{2, 1, 3, 2}, {5, 4}}, {{1, 2, 4}, {1}}, {{1, 2, 1}, {3}}};
    const std::vector<Sizes> large = {{{16, 64, 28, 28}, {7, 7}}, {{16, 16, 28, 28}, {56, 56}}};
    for (const DType dtype : floats())
      for (const Sizes& s : large_ ? large : small) {
        const OpInput x{{dtype, s.x}};
        add("adaptive_avg_pool", {x}, [s](In v) { return ops::adaptive_avg_pool(v[0], s.sizes); });
        add("adaptive_max_pool", {x}, [s](In v) { return ops::adaptive_max_pool(v[0], s.sizes); });
        add("upsample", {x}, [s](In v) { return ops::upsample(v[0], s.sizes); });
        for (const bool align_corners : {false, true})
          add("upsample", {x}, [s, align_corners](In v) {
            return ops::upsample(v[0], s.sizes, {.linear = true, .align_corners = align_corners});
          });
      }
  }

  void channels() {
    const std::vector<Shape> shapes =
        large_ ? std::vector{Shape{64, 64, 56, 56}} : std::vector<Shape>{{2, 3, 4}, {5, 3}, {3, 2, 5, 9}, {0, 3, 4}};
    for (const DType dtype : floats())
      for (const Shape& shape : shapes) {
        const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
        const OpInput x{{dtype, shape}}, row{{wide, Shape{shape[1]}}, 0.5, 1.5};
        add("channel_sum", {x}, [](In v) { return ops::channel_sum(v[0]); });
        add("channel_sum_of_squares", {x, row}, [](In v) { return ops::channel_sum_of_squares(v[0], v[1]); });
        add("channel_sum_of_products", {x, x, row},
            [](In v) { return ops::channel_sum_of_products(v[0], v[1], v[2]); });
        const OpInput narrow{{dtype, Shape{shape[1]}}, 0.5, 1.5};
        add("batch_norm", {x, narrow, narrow}, [](In v) { return ops::batch_norm(v[0], v[1], v[2]); });
        add("batch_norm", {x, narrow, narrow, narrow}, [](In v) { return ops::batch_norm(v[0], v[1], v[2], v[3]); });
      }
  }

  void rows() {
    for (const DType dtype : floats()) {
      for (const Shape& shape :
           large_ ? std::vector{Shape{4096, 256}} : std::vector{Shape{5}, {3, 5}, {2, 2, 33}, {0, 5}}) {
        const OpInput x{{dtype, shape}}, row{{dtype, Shape{shape.back()}}, 0.5, 1.5};
        for (const int64_t axis : {-1, 0}) {
          add("softmax", {x}, [axis](In v) { return ops::softmax(v[0], axis); });
          add("log_softmax", {x}, [axis](In v) { return ops::log_softmax(v[0], axis); });
        }
        add("layer_norm", {x, row, row}, [](In v) { return ops::layer_norm(v[0], v[1], v[2], 1e-3); });
        add("rms_norm", {x, row}, [](In v) { return ops::rms_norm(v[0], v[1], 1e-3); });
        for (const int64_t k : {1, 4}) add("top_k", {x}, [k](In v) { return ops::top_k(v[0], k); });
        add("swiglu", {x, x}, [](In v) { return ops::swiglu(v[0], v[1]); });
        add("geglu", {x, x}, [](In v) { return ops::geglu(v[0], v[1]); });
      }
    }
    const OpInput key{{DType::kI64, Shape{2}}, 0, 1000}, samples{{DType::kI64, of_size({3}, {4096})}, 0, 1000};
    const Shape shape = of_size({3, 5}, {4096, 256});
    add("dropout_mask", {key, samples},
        [shape](In v) { return ops::dropout_mask(v[0], v[1], shape.with(0, v[1].shape()[0]), 1, 0.3); });
    const Shape weights = of_size({3, 2, 3, 5}, {4096, 2, 8, 16});
    add("weights_dropout_mask", {key, samples},
        [weights](In v) { return ops::weights_dropout_mask(v[0], v[1], weights.with(0, v[1].shape()[0]), 1, 0.3); });
    add("random_uniform", {key}, [shape](In v) { return ops::random_uniform(v[0], shape, 1); });
    add("random_normal", {key}, [shape](In v) { return ops::random_normal(v[0], shape, 1); });
  }

  void rotary() {
    for (const DType dtype : floats()) {
      const Shape shape = of_size({2, 2, 3, 4}, {4, 16, 256, 64});
      const OpInput x{{dtype, shape}},
          frequencies{{dtype == DType::kF64 ? dtype : DType::kF32, Shape{shape[3] / 2}}, 0, 1};
      for (const Shape& places : {Shape{shape[2]}, Shape{shape[0], shape[2]}}) {
        const OpInput positions{{DType::kI64, places}, 0, 1000};
        add("rotary_table", {positions, frequencies}, [](In v) { return ops::rotary_table(v[0], v[1]); });
        const OpInput table{{frequencies.type.dtype,
                             places.rank() == 1 ? Shape{shape[2], shape[3]} : Shape{shape[0], shape[2], shape[3]}}};
        add("rotary", {x, table}, [](In v) { return ops::rotary(v[0], ops::detach(v[1])); });
      }
    }
  }

  void attention() {
    struct Sizes {
      int64_t batch, heads, groups, tokens, keys, width;
      Shape mask;  // rank 0: none
      bool causal;
    };
    const std::vector<Sizes> small = {{2, 2, 2, 3, 3, 2, {}, false},
                                      {2, 2, 1, 3, 3, 2, {}, true},
                                      {1, 4, 2, 2, 3, 2, {1, 1, 1, 3}, true},
                                      {2, 1, 1, 3, 2, 2, {}, true},
                                      {2, 2, 2, 2, 3, 2, {2, 1, 1, 3}, false},
                                      {1, 2, 1, 3, 2, 3, {1, 2, 3, 2}, false},
                                      {2, 3, 1, 130, 150, 5, {2, 1, 130, 150}, true},
                                      {2, 1, 1, 2, 0, 2, {}, false},
                                      {1, 2, 2, 0, 3, 2, {}, false},
                                      {2, 4, 2, 131, 70, 33, {}, false}};
    const std::vector<Sizes> large = {{4, 8, 8, 256, 256, 64, {}, true}};
    const OpInput key{{DType::kI64, Shape{2}}, 0, 1000};
    for (const DType dtype : floats())
      for (const Sizes& s : large_ ? large : small)
        for (const double dropout : {0.0, 0.4}) {
          const OpInput q{{dtype, Shape{s.batch, s.heads, s.tokens, s.width}}};
          const OpInput k{{dtype, Shape{s.batch, s.groups, s.keys, s.width}}};
          std::vector<OpInput> inputs{q, k, k};
          if (s.mask.rank() > 0) inputs.push_back({{dtype, s.mask}});
          if (dropout > 0) inputs.insert(inputs.end(), {key, {{DType::kI64, Shape{s.batch}}, 0, 1000}});
          add("attention", inputs, [s, dropout](In x) {
            ops::AttentionOptions options{.causal = s.causal, .dropout = dropout, .layer = 3};
            size_t next = 3;
            if (s.mask.rank() > 0) options.mask = x[next++];
            if (dropout > 0) options.dropout_key = x[next], options.sample_ids = x[next + 1];
            return ops::attention(x[0], x[1], x[2], options);
          });
        }
  }

  // With a single rank.
  void collectives() {
    for (const DType dtype : large_ ? numbers() : std::span(kReducedInPlace))
      for (const Reduction reduction : {Reduction::kSum, Reduction::kMax})
        add("all_reduce", {{{dtype, of_size({3, 5}, {1024, 1024})}}}, [reduction](In v) {
          return reduction == Reduction::kSum ? ops::all_reduce(v[0], reduction, Subject::kGradients)
                                              : ops::all_reduce(ops::detach(v[0]), reduction, Subject::kLoss);
        });
  }

  void losses() {
    for (const DType dtype : floats()) {
      const Shape shape = of_size({5, 4}, {4096, 256});
      const OpInput logits{{dtype, shape}}, labels{{DType::kI64, Shape{shape[0]}}, 0, 4};
      const OpInput weights{{dtype, Shape{shape[1]}}, 0.5, 1.5}, target{{dtype, shape}, 0, 1};
      for (const double smoothing : {0.0, 0.1}) {
        const ops::CrossEntropyOptions options{.ignore_index = 1, .label_smoothing = smoothing, .class_weights = {}};
        add("cross_entropy", {logits, labels}, [options](In x) { return ops::cross_entropy(x[0], x[1], options); });
        add("cross_entropy", {logits, labels, weights}, [options](In x) {
          auto weighted = options;
          weighted.class_weights = x[2];
          return ops::cross_entropy(x[0], x[1], weighted);
        });
        add("label_weights", {labels, weights}, [options](In x) {
          auto weighted = options;
          weighted.class_weights = x[1];
          return ops::label_weights(x[0], weighted);
        });
        add("label_weights", {labels}, [options](In x) { return ops::label_weights(x[0], options); });
      }
      const OpInput factor{{dtype, Shape{}}, 0, 1};
      add("smoothed_cross_entropy", {logits, labels, factor, factor}, [](In x) {
        ops::CrossEntropyOptions options;
        options.ignore_index = 1;
        return ops::smoothed_cross_entropy(x[0], x[1], options, x[2], x[3]);
      });
      const OpInput probabilities{{dtype, shape}, 0, 1}, of_classes{{dtype, Shape{shape[1]}}, 0, 2};
      add("soft_cross_entropy", {logits, probabilities, of_classes},
          [](In x) { return ops::soft_cross_entropy(x[0], x[1], x[2]); });
      const OpInput any_labels{{DType::kI64, Shape{shape[0]}}, -1, static_cast<double>(shape[1]) + 1};
      add("label_rank", {logits, any_labels}, [](In x) { return ops::label_rank(x[0], x[1]); });
      add("mse", {logits, target}, [](In x) { return ops::mse(x[0], x[1]); });
      add("l1", {logits, target}, [](In x) { return ops::l1(x[0], x[1]); });
      add("huber", {logits, target}, [](In x) { return ops::huber(x[0], x[1], 0.7); });
      add("bce_with_logits", {logits, target}, [](In x) { return ops::bce_with_logits(x[0], x[1]); });
    }
  }

  const bool large_;
  std::vector<OpCase> cases_;
};

HostTensor spread(const OpInput& input, size_t number) {
  std::mt19937 random(static_cast<uint32_t>(number) + 1);
  const int64_t n = input.type.shape.elements();
  if (!is_float(input.type.dtype)) {
    const double range = input.high - input.low;
    return HostTensor(input.type, [&](int64_t) {
      return std::floor(input.low + range * std::ldexp(static_cast<double>(random()), -32));
    });
  }
  std::vector<int64_t> place(static_cast<size_t>(n));
  std::iota(place.begin(), place.end(), 0);
  std::shuffle(place.begin(), place.end(), random);
  // Different from the values of other inputs too, and from 0, where some functions are not differentiable.
  const double shift = 0.013 * static_cast<double>(number + 1);
  const double step = (input.high - input.low) / static_cast<double>(std::max<int64_t>(n, 1));
  return HostTensor(input.type, [&](int64_t i) {
    return input.low + (static_cast<double>(place[static_cast<size_t>(i)]) + 0.5) * step + shift;
  });
}

}  // namespace

std::string OpCase::name() const {
  std::string text = function;
  for (const OpInput& input : inputs) text += " " + input.type.to_string();
  return text;
}

std::vector<OpCase> op_cases(OpCaseSize size) {
  return Table(size).run();
}

RecordedCase::RecordedCase(const OpCase& c) {
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back({&program, program.input(InputKind::kBatch, fmt::format("x{}", i), c.inputs[i].type)});
    tensors.push_back(spread(c.inputs[i], i));
  }
  result = c.record(inputs);
  program.output("y", result.id);
}

}  // namespace runner::backends::testing
