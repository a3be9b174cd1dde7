cpdef str _text(object value, str line)
