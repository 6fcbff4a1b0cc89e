/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA leaf: which operations there are, and the ones that multiply matrices, by cuBLAS. */
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "trainer/ops_cuda.h"

_Static_assert(sizeof(real) == sizeof(float), "the CUDA leaf computes in float");

static const char lacks[] = "the CUDA operations lack causal attention, forward and backward";

/* A failed product as a driver's code: cuBLAS has numbers of its own. */
enum { NO_MEMORY = 2, FAILED = 719 };

static int driver_code(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? 0 : status == CUBLAS_STATUS_ALLOC_FAILED ? NO_MEMORY : FAILED;
}

/* C (m, n) = op(A) op(B) * alpha + beta C, row-major; cuBLAS is column-major, which sees transposes: C^T = B^T A^T. */
struct product {
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    float alpha, beta;
};

static int multiply(cublasHandle_t blas, struct product p, const float *a, const float *b, float *c) {
    cublasOperation_t op_a = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                      op_b = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    int64_t lda = p.transpose_a ? p.m : p.k, ldb = p.transpose_b ? p.k : p.n;
    return driver_code(cublasSgemm_64(blas, op_b, op_a, p.n, p.m, p.k, &p.alpha, b, ldb, a, lda, &p.beta, c, p.n));
}

/* ---- linear ------------------------------------------------------------------------------------------------------ */

/* Weights in bf16 get a float copy for the time of the products, in stream-ordered memory of the driver's, outside of
 * the pool. *copy is to be freed on the stream. */
static int float_weights(const struct linear_args *l, float **copy, const float **weights, weir_stream stream) {
    *copy = NULL;
    *weights = l->right;
    if (l->wire == WIRE_REAL || !l->offsets[l->count]) return 0;
    int64_t n = l->count * l->in * l->out;
    int code = (int)cudaMallocAsync((void **)copy, (size_t)n * sizeof **copy, stream);
    if (code) return code;
    *weights = *copy;
    return cuda_widen(*copy, l->right, l->wire, n, stream);
}

/* `rows` of group `g` with its weights; gives a driver's code */
typedef int (*group_product)(const struct linear_args *l, int64_t g, int64_t first, int64_t rows, const float *right,
                             weir_stream stream);

static int each_group(const struct linear_args *l, const float *right, group_product product, weir_stream stream) {
    int code = driver_code(cublasSetStream(l->state, stream));
    for (int g = 0; g < l->count && !code; g++)
        code = product(l, g, l->offsets[g], l->offsets[g + 1] - l->offsets[g], right, stream);
    return code;
}

static int with_weights(const struct linear_args *l, group_product product, weir_stream stream) {
    float *copy;
    const float *weights;
    int code = float_weights(l, &copy, &weights, stream);
    if (!code) code = each_group(l, weights, product, stream);
    int freed = copy ? (int)cudaFreeAsync(copy, stream) : 0;
    return code ? code : freed;
}

static int forward_group(const struct linear_args *l, int64_t g, int64_t first, int64_t rows, const float *right,
                         weir_stream stream) {
    (void)stream;
    if (!rows) return 0;
    return multiply(l->state, (struct product){false, true, rows, l->out, l->in, 1, l->add}, l->left + first * l->in,
                    right + g * l->in * l->out, l->result + first * l->out);
}

static int backward_input_group(const struct linear_args *l, int64_t g, int64_t first, int64_t rows, const float *right,
                                weir_stream stream) {
    (void)stream;
    if (!rows) return 0;
    return multiply(l->state, (struct product){false, false, rows, l->in, l->out, 1, l->add}, l->left + first * l->out,
                    right + g * l->in * l->out, l->result + first * l->in);
}

static int backward_weight_group(const struct linear_args *l, int64_t g, int64_t first, int64_t rows,
                                 const float *right, weir_stream stream) {
    int64_t size = l->in * l->out;
    float *dw = l->result + g * size;
    if (!rows) return l->add ? 0 : (int)cudaMemsetAsync(dw, 0, (size_t)size * sizeof *dw, stream);
    return multiply(l->state, (struct product){true, false, l->out, l->in, rows, 1, l->add}, l->left + first * l->out,
                    right + first * l->in, dw);
}

int cuda_linear_forward(void *arguments, weir_stream stream) { return with_weights(arguments, forward_group, stream); }

int cuda_linear_backward_input(void *arguments, weir_stream stream) {
    return with_weights(arguments, backward_input_group, stream);
}

int cuda_linear_backward_weight(void *arguments, weir_stream stream) {
    const struct linear_args *l = arguments;
    return each_group(l, l->right, backward_weight_group, stream);
}

/* ---- Newton-Schulz ----------------------------------------------------------------------------------------------- */

/* X = a X + (b A + c A^2) X on the shorter side, as in ops_cpu_optim.c */
static int newton_schulz_step(const struct newton_schulz_args *s, float *u, weir_stream stream) {
    const float a = 3.4445f, b = -4.7750f, c = 2.0315f;
    bool tall = s->rows > s->cols;
    int64_t side = shorter(s->rows, s->cols), length = tall ? s->rows : s->cols;
    float *gram = s->scratch, *polynomial = gram + side * side, *x = polynomial + side * side;
    size_t side_bytes = (size_t)(side * side) * sizeof *gram, bytes = (size_t)(s->rows * s->cols) * sizeof *x;
    int code = (int)cudaMemcpyAsync(x, u, bytes, cudaMemcpyDeviceToDevice, stream);
    if (!code) code = multiply(s->state, (struct product){tall, !tall, side, side, length, 1, 0}, x, x, gram);
    if (!code) code = (int)cudaMemcpyAsync(polynomial, gram, side_bytes, cudaMemcpyDeviceToDevice, stream);
    if (!code)
        code = multiply(s->state, (struct product){false, false, side, side, side, c, b}, gram, gram, polynomial);
    if (code) return code;
    return multiply(s->state, (struct product){false, false, s->rows, s->cols, side, 1, a}, tall ? x : polynomial,
                    tall ? polynomial : x, u);
}

int cuda_newton_schulz(void *arguments, weir_stream stream) {
    const struct newton_schulz_args *s = arguments;
    int64_t size = s->rows * s->cols;
    int code = driver_code(cublasSetStream(s->state, stream));
    if (!code) code = cuda_normalize(s->u, s->count, size, stream);
    for (int64_t i = 0; i < s->count; i++)
        for (int step = 0; step < 5 && !code; step++) code = newton_schulz_step(s, s->u + i * size, stream);
    return code;
}

/* ---- the leaf ---------------------------------------------------------------------------------------------------- */

#define LAUNCH(op) [OP_##op] = cuda_##op
static const struct ops_leaf leaf = {.launch = {LAUNCH(embed_forward),
                                                LAUNCH(embed_backward),
                                                LAUNCH(rmsnorm_forward),
                                                LAUNCH(rmsnorm_backward),
                                                LAUNCH(linear_forward),
                                                LAUNCH(linear_backward_input),
                                                LAUNCH(linear_backward_weight),
                                                LAUNCH(rope),
                                                LAUNCH(swiglu_forward),
                                                LAUNCH(swiglu_backward),
                                                LAUNCH(router_forward),
                                                LAUNCH(router_backward),
                                                LAUNCH(route_plan),
                                                LAUNCH(rows_gather),
                                                LAUNCH(rows_combine),
                                                LAUNCH(cross_entropy),
                                                LAUNCH(add),
                                                LAUNCH(convert),
                                                LAUNCH(sum_blocks),
                                                LAUNCH(sum_squares),
                                                LAUNCH(clip),
                                                LAUNCH(adamw),
                                                LAUNCH(muon_momentum),
                                                LAUNCH(newton_schulz),
                                                LAUNCH(muon_apply)}};

/* The handle lives as long as the process. It is made with the device's primary context current, which is weir's too. */
enum weir_status ops_open_cuda(struct weir_device *device, enum wire wire, struct ops *out) {
    struct weir_device_info info = {.size = sizeof info};
    enum weir_status status = weir_device_get_info(device, &info);
    if (status) return status;
    if (info.emulated) return WEIR_NOT_SUPPORTED;
    cublasHandle_t blas = NULL;
    if (cudaSetDevice(info.ordinal) || cublasCreate(&blas)) return WEIR_DRIVER;
    ops_open(device, wire, "cuda", lacks, &leaf, blas, out);
    return WEIR_OK;
}
