/* What the hot loops call for every segment: as C, so that it stands where it is called.  See octets.py. */
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define MPA_SELDOM __attribute__((noinline, cold, unused))
#define MPA_HERE __attribute__((always_inline, unused))
#else
#define MPA_SELDOM
#define MPA_HERE
#endif

#define MPA_BE16(p) ((unsigned int)(p)[0] << 8 | (p)[1])
#define MPA_BE32(p) ((unsigned int)(p)[0] << 24 | (unsigned int)(p)[1] << 16 | (unsigned int)(p)[2] << 8 | (p)[3])
#define MPA_LE32(p) ((unsigned int)(p)[3] << 24 | (unsigned int)(p)[2] << 16 | (unsigned int)(p)[1] << 8 | (p)[0])

static MPA_SELDOM long long mpa_no_number(void)
{
    PyErr_SetString(PyExc_IndexError, "no number there");
    return -1;
}

static MPA_SELDOM const unsigned char *mpa_no_octets(PyObject *error, const char *why)
{
    PyErr_SetString(error, why);
    return NULL;
}

/* Where so many octets lie from an index on; NULL, with an exception set, if not all of them lie there. */
static inline MPA_HERE const unsigned char *mpa_lying_in(PyObject *octets, Py_ssize_t at, Py_ssize_t count)
{
    const unsigned char *first;
    Py_ssize_t size;
    if (PyMemoryView_Check(octets)) {
        const Py_buffer *view = PyMemoryView_GET_BUFFER(octets);
        if ((((PyMemoryViewObject *)octets)->flags & _Py_MEMORYVIEW_RELEASED) || view->itemsize != 1 || view->ndim != 1 ||
            view->suboffsets != NULL || (view->strides != NULL && view->strides[0] != 1))
            return mpa_no_octets(PyExc_ValueError, "not octets one behind the other");
        first = (const unsigned char *)view->buf;
        size = view->len;
    } else if (PyBytes_Check(octets)) {
        first = (const unsigned char *)PyBytes_AS_STRING(octets);
        size = PyBytes_GET_SIZE(octets);
    } else if (PyByteArray_Check(octets)) {
        first = (const unsigned char *)PyByteArray_AS_STRING(octets);
        size = PyByteArray_GET_SIZE(octets);
    } else
        return mpa_no_octets(PyExc_TypeError, "not octets");
    if (at < 0 || count < 0 || at > size || count > size - at)
        return mpa_no_octets(PyExc_IndexError, "octets that do not lie there");
    return first + at;
}

/* Append octets; -1, with an exception set, if something else looks into the bytearray, or there is no memory. */
static inline MPA_HERE int mpa_append_octets(PyObject *taken, const unsigned char *octets, Py_ssize_t count)
{
    PyByteArrayObject *array = (PyByteArrayObject *)taken;
    Py_ssize_t size = PyByteArray_GET_SIZE(taken);
    /* An empty one may have no room for the zero behind its octets. */
    if (!count)
        return 0;
#if PY_VERSION_HEX < 0x030F0000
    /* As Python does it where there is room; more is made than it makes, so that few are moved each time. */
    if (array->ob_exports == 0 && array->ob_start == array->ob_bytes) {
        if (size + count >= array->ob_alloc && PyByteArray_Resize(taken, size + count + (size < 512 ? 512 : size / 2)) < 0)
            return -1;
        Py_SET_SIZE(array, size + count);
        array->ob_start[size + count] = 0;
    } else
#endif
    if (PyByteArray_Resize(taken, size + count) < 0)
        return -1;
    memcpy(array->ob_start + size, octets, count);
    return 0;
}

static inline MPA_HERE Py_ssize_t mpa_lower_bound(const long long *numbers, Py_ssize_t high, long long number, Py_ssize_t low)
{
    Py_ssize_t count = high - low;
    if (low < 0)
        return (Py_ssize_t)mpa_no_number();
    while (count > 0) {
        /* Without a branch: the processor guesses it wrong every other time. */
        Py_ssize_t half = count / 2, is_less = numbers[low + half] < number;
        low += (half + 1) & -is_less;
        count = half - (is_less & ~count);
    }
    return low;
}

/* Of arrays of 64 bits each: macros, since their type is declared farther down. */
#define MPA_ARRAY(numbers) ((struct arrayobject *)(numbers))
#define MPA_NUMBERS(numbers) (MPA_ARRAY(numbers)->data.as_longlongs)
#define MPA_COUNT(numbers) (MPA_ARRAY(numbers)->ob_size)
#define mpa_is_free(numbers, count) (MPA_COUNT(numbers) + (count) <= MPA_ARRAY(numbers)->allocated)
#define mpa_number_at(numbers, index) \
    ((size_t)(index) < (size_t)MPA_COUNT(numbers) ? MPA_NUMBERS(numbers)[index] : mpa_no_number())
#define mpa_put_number(numbers, index, number) \
    ((size_t)(index) < (size_t)MPA_COUNT(numbers) ? (MPA_NUMBERS(numbers)[index] = (number), 0) : (int)mpa_no_number())
#define mpa_index_in(numbers, number, low) mpa_lower_bound(MPA_NUMBERS(numbers), MPA_COUNT(numbers), number, low)
