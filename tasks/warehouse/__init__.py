"""From a warehouse to partitions, block by block.

- ``adbc``: Databases over ADBC: Arrow batches from a driver by its name, and how each kind of database writes a
  condition.
- ``blocks``: From a warehouse to Parquet partitions: one block after the other, each whole or not there.
- ``delta``: Delta tables as a source: rows that the log of one version counts, by deltalake's own reader.
- ``dialect``: How a CSV file is written: encoding, delimiter, quotes, lines above the header. DuckDB's sniffer finds
  the dialect,
- ``footer``: Lines below a table: totals, averages, notes. They are no rows, and ``skip_end`` of source.yaml leaves
  them out.
- ``iceberg``: Iceberg tables as a source: the rows of one snapshot, found through the table's catalog, by pyiceberg's
  own reader.
- ``intervals``: The partitions that a declared key spans: half-open intervals of the key's column, one a block.
- ``kinds``: Types of a source -> the kinds that source.yaml declares: without loss, or not at all.
- ``own_words``: Errors of libraries and stores in our words: their own texts may quote paths, keys, addresses and
  values.
- ``read_files``: Folders of Parquet or CSV files as a source of an extract.
- ``read_sql``: TextReading one block of a source as Arrow batches of the declared columns: streamed, never the whole
  block at once.
- ``readings``: Text of a source -> values, as source.yaml declares it (``schemas/sources.py``); no value is guessed at
  here.
- ``sample``: The first million rows of a source as one frame, for a draft: text stays text, nothing is read into it.
- ``stores``: Parquet files in object storage as a source: ``s3://``, ``gs://`` and ``abfs://`` by pyarrow's file
  systems.
- ``unfinished``: An extract that is under way, or died: its folder holds blocks, and is not a study's data yet.
"""
